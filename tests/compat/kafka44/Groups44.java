import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

/** What a client of Kafka 4.4 gets from groups, their settings and telemetry; each line of the output is a claim. */
public class Groups44 {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        try (Admin admin = Admin.create(common)) {
            ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java");
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "g");
            admin.incrementalAlterConfigs(Map.of(
                metrics, List.of(set("metrics", "*"), set("interval.ms", "200"), set("match", "client_software_name=apache-kafka-java")),
                group, List.of(set("consumer.heartbeat.interval.ms", "6000")))).all().get();
            Config described = admin.describeConfigs(List.of(group)).all().get().get(group);
            ConfigEntry entry = described.get("consumer.heartbeat.interval.ms");
            System.out.println("group " + entry.value() + " " + entry.source());
            System.out.println("listed " + new TreeSet<>(admin.listConfigResources(
                Set.of(ConfigResource.Type.GROUP, ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions())
                .all().get().stream().map(each -> each.type() + ":" + each.name()).toList()));
            try {
                admin.incrementalAlterConfigs(Map.of(group, List.of(set("consumer.heartbeat.interval.ms", "1")))).all().get();
            } catch (java.util.concurrent.ExecutionException error) {
                System.out.println("bounds " + error.getCause().getClass().getSimpleName());
            }
            try {
                admin.describeClassicGroups(List.of("none")).all().get();
            } catch (java.util.concurrent.ExecutionException error) {
                System.out.println("none " + error.getCause().getClass().getSimpleName());
            }
            admin.createTopics(List.of(new NewTopic("t", 2, (short) 1))).all().get();
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
                for (int number = 0; number < 100; number++) producer.send(new ProducerRecord<>("t", "k" + number, "v")).get();
                Map<String, Object> config = new HashMap<>(common);
                config.putAll(Map.of("group.id", "g", "group.protocol", "consumer", "auto.offset.reset", "earliest", "enable.auto.commit", "false", "client.id", "reader"));
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
                    consumer.subscribe(new org.apache.kafka.clients.consumer.SubscriptionPattern("t|x+"));
                    int read = 0;
                    while (read < 100) read += consumer.poll(Duration.ofMillis(100)).count();
                    consumer.commitSync();
                    System.out.println("committed " + sum(consumer.committed(Set.of(new TopicPartition("t", 0), new TopicPartition("t", 1)))));
                    ConsumerGroupDescription found = admin.describeConsumerGroups(List.of("g")).all().get().get("g");
                    System.out.println("described " + found.groupState() + " " + found.type() + " " + found.members().size());
                    System.out.println("types " + new TreeSet<>(admin.listGroups().all().get().stream().map(each -> each.groupId() + ":" + each.type().orElse(null)).toList()));
                    long end = System.currentTimeMillis() + 1500;
                    while (System.currentTimeMillis() < end) consumer.poll(Duration.ofMillis(100));
                    System.out.println("telemetry " + !consumer.clientInstanceId(Duration.ofSeconds(5)).toString().isEmpty());
                    try (java.util.Scanner page = new java.util.Scanner(new java.net.URL(arguments[1]).openStream())) {
                        boolean isThere = false;
                        while (page.hasNextLine()) {
                            String line = page.nextLine();
                            isThere |= line.startsWith("kafka_client_consumer_") && line.contains("client_id=\"reader\"") && line.contains("apache-kafka-java");
                        }
                        System.out.println("page " + isThere);
                    }
                }
                System.out.println("offsets " + sum(admin.listConsumerGroupOffsets("g").partitionsToOffsetAndMetadata().get()));
                admin.deleteTopics(List.of("t")).all().get();
                admin.createTopics(List.of(new NewTopic("t", 2, (short) 1))).all().get();
                System.out.println("made again " + admin.listConsumerGroupOffsets("g").partitionsToOffsetAndMetadata().get());
            }
        }
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static long sum(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum();
    }
}
