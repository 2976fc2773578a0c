"""Values with schemas as columns and back: Avro, JSON Schema and Protobuf, with a registry or with schema files.

    origins       which schema: of a file, a text, or the newest of a registry's subject; plain data that travels
    avro          columns of an Avro schema
    json_schema   columns of a JSON Schema
    protobuf      descriptors, columns and messages of a .proto file
    arrow_values  values between the serializers of `tidelog.client.schemas` and Arrow
    columns       the two steps: `parse` and `pack`

Values are read and written by the serializers of `tidelog.client.schemas`, one Arrow batch at a time.
"""
