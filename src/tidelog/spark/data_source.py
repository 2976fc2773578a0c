"""The data source behind `.format("tidelog")`: its readers and writers, imported on first use.

Found through `pyspark_tidelog`. Runs in the driver's helper processes and, unpickled, in executors. Options arrive with
lower-cased names.
"""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.datasource import DataSourceWriter as BatchWriter
from pyspark.sql.types import StructType

from tidelog.spark.internals import check_version
from tidelog.spark.sentences import plainly
from tidelog.spark.worker import print_no_lost_connections, settle

print_no_lost_connections()


class TidelogDataSource(DataSource):
    """The format `tidelog`: the options, rows and offsets of Spark's own Kafka connector, without a jar."""

    def __init__(self, options: dict[str, str]) -> None:
        check_version()
        super().__init__(options)

    @classmethod
    def name(cls) -> str:
        """The word in `.format(...)`."""
        return "tidelog"

    @plainly()
    def schema(self) -> StructType:
        """The columns of a record, unless the user's schema asks for fewer."""
        from tidelog.spark.source.columns import full_schema

        return full_schema(self.options)

    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`: from a cluster, or from segment files when `path` is given."""
        if self.options.get("path"):
            from tidelog.spark.source.files import SegmentFileReader

            return SegmentFileReader(schema, self.options)
        from tidelog.spark.source.batch_reader import BatchReader

        settle("plan")
        return BatchReader(schema, self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        from tidelog.spark.options import OptionError
        from tidelog.spark.source.stream_reader import RefusedReader, StreamReader

        try:
            return StreamReader(schema, self.options)
        except OptionError as error:
            return RefusedReader(error)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """For `df.write`."""
        from tidelog.spark.sink.writers import make_batch_writer

        settle("plan")
        return make_batch_writer(schema, self.options, overwrite=overwrite)

    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """For `df.writeStream`; Spark passes the arguments by these very names."""
        from tidelog.spark.sink.writers import make_stream_writer

        settle("plan")
        return make_stream_writer(schema, self.options, overwrite=overwrite)
