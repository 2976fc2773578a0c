import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

/** Kafka's encoder of dynamic passwords: lines of "secret cipher keyLength encode|decode text", separated by tabs. */
class PasswordOracle {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t");
            var encoder =
                PasswordEncoder.encrypting(new Password(parts[0]), null, parts[1], Integer.parseInt(parts[2]), 4096);
            if (parts[3].equals("encode")) {
                out.println(encoder.encode(new Password(parts[4])));
            } else {
                out.println(encoder.decode(parts[4]).value());
            }
        }
    }
}
