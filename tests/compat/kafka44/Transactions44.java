import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/** Transactions of one producer, with offsets; each line of the output is a claim. Runs with the clients of 3.9 and 4.4. */
public class Transactions44 {
    static final int ROUNDS = 20;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], id = arguments[1], topic = arguments[2];
        Map<String, Object> common = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        try (Admin admin = Admin.create(common)) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            Map<String, Object> config = new HashMap<>(common);
            config.put("transactional.id", id);
            config.put("linger.ms", 0);
            config.put("transaction.timeout.ms", 5000);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                producer.initTransactions();
                for (int round = 0; round < ROUNDS; round++) {
                    producer.beginTransaction();
                    for (int number = 0; number < 6; number++)
                        producer.send(new ProducerRecord<>(topic, number % 3, null, (round % 2 == 0 ? "yes" : "no") + round));
                    producer.sendOffsetsToTransaction(
                        Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(round)), new ConsumerGroupMetadata("group-" + id));
                    if (round % 2 == 0) producer.commitTransaction(); else producer.abortTransaction();
                }
                producer.beginTransaction();
                producer.abortTransaction();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, "last"));
                producer.commitTransaction();
                TransactionDescription described = admin.describeTransactions(List.of(id)).all().get().get(id);
                System.out.println("epoch is bumped " + (described.producerEpoch() >= ROUNDS) + " " + described.state());
                System.out.println("offset " + admin.listConsumerGroupOffsets("group-" + id).partitionsToOffsetAndMetadata().get()
                    .get(new TopicPartition(topic, 0)).offset());

                // A second producer of the same id fences the first one, whose transaction is aborted.
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 1, null, "no")).get();
                try (KafkaProducer<String, String> second = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
                    second.initTransactions();
                    second.beginTransaction();
                    second.send(new ProducerRecord<>(topic, 1, null, "second"));
                    second.commitTransaction();
                    try {
                        producer.commitTransaction();
                        System.out.println("not fenced");
                    } catch (org.apache.kafka.common.errors.ProducerFencedException | org.apache.kafka.common.errors.InvalidProducerEpochException error) {
                        System.out.println("fenced");
                    }
                }
            }
            Map<String, Object> reading = new HashMap<>(common);
            reading.putAll(Map.of("isolation.level", "read_committed", "auto.offset.reset", "earliest"));
            Map<String, Integer> counts = new TreeMap<>();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
                List<TopicPartition> partitions = List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1), new TopicPartition(topic, 2));
                consumer.assign(partitions);
                Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
                consumer.seekToBeginning(partitions);
                while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each)))
                    for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200)))
                        counts.merge(record.value().replaceAll("[0-9]+$", ""), 1, Integer::sum);
            }
            System.out.println("read " + counts);
        }
    }
}
