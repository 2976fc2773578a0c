"""Values with schemas as columns and back: Avro, JSON Schema and Protobuf, with a registry or with schema files.

    origins       which schema: of a file, a text, or the newest of a registry's subject; plain data that travels
    formats       what each format offers; `avro`, `json_schema` and `protobuf` offer it
    arrow_values  values between the serializers of `tidelog.client.schemas` and Arrow
    rows          a row's value read and written by its schema, in executors
    columns       the two steps: `parse` and `pack`

Values are read and written by the serializers of `tidelog.client.schemas`, one Arrow batch at a time.
"""
