import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;

/**
 * Counts the words of the topic `lines` into `counts`, by way of a repartition topic and a store with a changelog. Its
 * arguments are settings; it says how many tasks it runs whenever that changes, and ends with its input.
 */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        for (String each : arguments) {
            int end = each.indexOf('=');
            config.put(each.substring(0, end), each.substring(end + 1));
        }
        config.put("default.key.serde", Serdes.String().getClass());
        config.put("default.value.serde", Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("words"))
            .toStream().mapValues(String::valueOf).to("counts");
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("failed " + error);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        long told = -1;
        while (System.in.available() == 0) {
            long tasks = streams.metadataForLocalThreads().stream().mapToLong(thread -> thread.activeTasks().size()).sum();
            if (tasks != told) System.out.println("tasks " + tasks);
            told = tasks;
            Thread.sleep(100);
        }
        streams.close(Duration.ofSeconds(30));
        System.out.println("closed");
    }
}
