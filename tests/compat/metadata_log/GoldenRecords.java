import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Reads lines of {"record", "version", "value"} and writes, in hex, the value that Kafka puts into its metadata log. */
public class GoldenRecords {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        MetadataRecordSerde serde = new MetadataRecordSerde();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            short version = asked.get("version").shortValue();
            Class<?> converter =
                Class.forName("org.apache.kafka.common.metadata." + asked.get("record").asText() + "JsonConverter");
            ApiMessage record = (ApiMessage) converter.getMethod("read", JsonNode.class, short.class)
                .invoke(null, asked.get("value"), version);
            ApiMessageAndVersion whole = new ApiMessageAndVersion(record, version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(serde.recordSize(whole, cache));
            serde.write(whole, cache, new ByteBufferAccessor(buffer));
            System.out.println(HexFormat.of().formatHex(buffer.array()));
        }
    }
}
