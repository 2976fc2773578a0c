import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;
import org.apache.kafka.storage.internals.log.RecordValidationException;

/**
 * Apache Kafka's own record code behind lines of text, for test_kafka_oracle.py: one command a line on standard input,
 * one answer a line on standard output. Fields are separated by spaces, bytes are hexadecimal, null is "-".
 */
public class RecordsOracle {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split(" ", -1)));
            System.out.flush();
        }
    }

    static String answer(String[] fields) {
        try {
            switch (fields[0]) {
                case "build": return build(fields);
                case "read": return read(fields);
                case "down": return down(fields);
                default: return validate(fields);
            }
        } catch (RecordValidationException e) {
            String indexes = e.recordErrors().stream().map(r -> Integer.toString(r.batchIndex)).collect(Collectors.joining(","));
            return "error " + Errors.forException(e.invalidException()).name() + " " + indexes;
        } catch (Throwable e) {
            return "error " + Errors.forException(e).name() + " ";
        }
    }

    static byte[] bytes(String hex) {
        return hex.equals("-") ? null : HEX.parseHex(hex);
    }

    static String hex(ByteBuffer buffer) {
        return buffer == null ? "-" : HEX.formatHex(Utils.toArray(buffer.duplicate()));
    }

    static Compression compression(String name, String level) {
        if (level.equals("-")) return Compression.of(name).build();
        int value = Integer.parseInt(level);
        switch (name) {
            case "gzip": return Compression.gzip().level(value).build();
            case "lz4": return Compression.lz4().level(value).build();
            case "zstd": return Compression.zstd().level(value).build();
            default: return Compression.of(name).build();
        }
    }

    /** build magic codec level timestampType baseOffset logAppendTime producerId epoch sequence transactional record... */
    static String build(String[] f) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), Byte.parseByte(f[1]),
            compression(f[2], f[3]), TimestampType.forName(f[4]), Long.parseLong(f[5]), Long.parseLong(f[6]),
            Long.parseLong(f[7]), Short.parseShort(f[8]), Integer.parseInt(f[9]), Boolean.parseBoolean(f[10]), -1);
        for (int i = 11; i < f.length; i++) {
            String[] r = f[i].split(",", -1);
            List<Header> headers = new ArrayList<>();
            for (int h = 4; h + 1 < r.length; h += 2)
                headers.add(new RecordHeader(new String(bytes(r[h]), StandardCharsets.UTF_8), bytes(r[h + 1])));
            builder.appendWithOffset(Long.parseLong(r[0]), Long.parseLong(r[1]), bytes(r[2]), bytes(r[3]),
                headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    /** read bytes: every record of every batch, checksums checked. */
    static String read(String[] f) {
        StringBuilder out = new StringBuilder("ok");
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(f[1]))).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                out.append(' ').append(record.offset()).append(',').append(record.timestamp());
                out.append(',').append(hex(record.key())).append(',').append(hex(record.value()));
                for (Header header : record.headers()) {
                    out.append(',').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    out.append(',').append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                }
            }
        }
        return out.toString();
    }

    /** down magic firstOffset bytes */
    static String down(String[] f) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(f[3])));
        return "ok " + hex(records.downConvert(Byte.parseByte(f[1]), Long.parseLong(f[2]), Time.SYSTEM).records().buffer());
    }

    /** validate version codec level compacted timestampType beforeMs afterMs baseOffset leaderEpoch nowMs origin bytes */
    static String validate(String[] f) {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(f[12])));
        ProduceRequest.validateRecords(Short.parseShort(f[1]), records);
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) {
            // What UnifiedLog checks before it calls the validator.
            if (batch.magic() >= 2 && f[11].equals("CLIENT") && batch.baseOffset() != 0)
                throw new org.apache.kafka.common.InvalidRecordException("base offset");
            if (!batch.isValid()) throw new org.apache.kafka.common.errors.CorruptRecordException("checksum");
            if (batch.compressionType() != CompressionType.NONE) source = batch.compressionType();
        }
        Compression target = f[2].equals("producer") ? Compression.of(source).build() : compression(f[2], f[3]);
        long now = Long.parseLong(f[10]);
        LogValidator validator = new LogValidator(records, new TopicPartition("topic", 0), new FixedTime(now), source, target,
            Boolean.parseBoolean(f[4]), (byte) 2, TimestampType.forName(f[5]), Long.parseLong(f[6]), Long.parseLong(f[7]),
            Integer.parseInt(f[9]), AppendOrigin.valueOf(f[11]), MetadataVersion.latestTesting());
        LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(Long.parseLong(f[8])), new NoMetrics(), BufferSupplier.NO_CACHING);
        return "ok " + result.maxTimestampMs + " " + hex(result.validatedRecords.buffer());
    }

    static class NoMetrics implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() {}
        public void recordInvalidOffset() {}
        public void recordInvalidSequence() {}
        public void recordInvalidChecksums() {}
        public void recordNoKeyCompactedTopic() {}
    }

    static class FixedTime implements Time {
        final long now;
        FixedTime(long now) { this.now = now; }
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1000000; }
        public void sleep(long ms) {}
        public void waitObject(Object o, Supplier<Boolean> condition, long deadline) {}
    }
}
