import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Kafka's Java client under chaos: an idempotent producer, a transactional one and two members of a group, in threads.
 *
 * <p>Arguments: bootstrap servers, topic of events, topic of transactions, number of partitions. One line of output for
 * each thing that happened, words separated by spaces; `java.py` reads them. On standard input, "quiet" ends the
 * producers and the end of the input ends everything.
 */
public final class ChaosClient {
    private static final AtomicLong numbers = new AtomicLong();
    private static final AtomicLong lives = new AtomicLong();
    private static final PrintStream out = new PrintStream(System.out, false);
    private static volatile boolean producing = true;
    private static volatile boolean running = true;
    private static String servers;
    private static int partitions;

    public static void main(String[] words) throws Exception {
        servers = words[0];
        partitions = Integer.parseInt(words[3]);
        Thread[] producers = {keep("java-idempotent", () -> produce(words[1])), keep("java-transactions", () -> transact(words[2]))};
        Thread[] members = {keep("java-member", () -> join(words[1])), keep("java-member-2", () -> join(words[1]))};
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            producing = false;
            for (Thread producer : producers) {
                producer.join();
            }
            say("quiet");
        }
        producing = false;
        running = false;
        for (Thread member : members) {
            member.join();
        }
        say("end");
    }

    private static Thread keep(String name, Runnable life) {
        boolean isProducer = !name.contains("member");
        Thread thread = new Thread(() -> {
            while (isProducer ? producing : running) {
                try {
                    life.run();
                } catch (KafkaException error) {
                    say("error " + name + " " + error.getClass().getSimpleName());
                } catch (RuntimeException error) {
                    say("crash " + name + " " + error.toString().replace('\n', ' '));
                    return;
                }
            }
        }, name);
        thread.start();
        return thread;
    }

    private static void say(String line) {
        synchronized (out) {
            out.println(line);
            out.flush();
        }
    }

    private static Properties settings() {
        Properties all = new Properties();
        all.put("bootstrap.servers", servers);
        all.put("metadata.max.age.ms", "3000");
        all.put("request.timeout.ms", "4000");
        all.put("reconnect.backoff.max.ms", "500");
        return all;
    }

    private static KafkaProducer<String, String> producer(String transactionalId) {
        Properties all = settings();
        all.put("enable.idempotence", "true");
        all.put("delivery.timeout.ms", transactionalId == null ? "90000" : "30000");
        all.put("max.block.ms", "30000");
        if (transactionalId != null) {
            all.put("transactional.id", transactionalId);
            all.put("transaction.timeout.ms", "30000");
        }
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private static void send(KafkaProducer<String, String> producer, String topic, Random chance, String life, String transaction) {
        String value = "java-" + numbers.incrementAndGet();
        say("send " + value + " " + life + " " + transaction);
        producer.send(new ProducerRecord<>(topic, chance.nextInt(partitions), null, value), (where, error) -> {
            if (error == null) {
                say("ack " + value + " " + topic + " " + where.partition() + " " + where.offset());
            } else {
                say("fail " + value + " " + error.getClass().getSimpleName());
            }
        });
    }

    private static void pause(Random chance) {
        try {
            Thread.sleep(20 + chance.nextInt(100));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void produce(String topic) {
        Random chance = new Random();
        String life = "java-idempotent/" + lives.incrementAndGet();
        try (KafkaProducer<String, String> producer = producer(null)) {
            while (producing) {
                send(producer, topic, chance, life, "-");
                pause(chance);
            }
            producer.flush();
        }
    }

    private static void transact(String topic) {
        Random chance = new Random();
        String life = "java-transactions/" + lives.incrementAndGet();
        try (KafkaProducer<String, String> producer = producer("java-transactions")) {
            producer.initTransactions();
            while (producing) {
                String transaction = "t" + numbers.incrementAndGet();
                producer.beginTransaction();
                for (int number = chance.nextInt(5); number >= 0; number--) {
                    send(producer, topic, chance, life, transaction);
                }
                try {
                    if (chance.nextInt(4) == 0) {
                        producer.abortTransaction();
                        say("abort " + transaction);
                    } else {
                        producer.commitTransaction();
                        say("commit " + transaction);
                    }
                } catch (ProducerFencedException error) {
                    throw error;
                } catch (org.apache.kafka.common.errors.TimeoutException error) {
                    // The outcome is not known; the next life of this producer ends the transaction.
                    throw error;
                } catch (KafkaException error) {
                    producer.abortTransaction();
                    say("abort " + transaction);
                }
                pause(chance);
            }
        }
    }

    private static void join(String topic) {
        Properties all = settings();
        all.put("group.id", "java");
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        all.put("session.timeout.ms", "6000");
        all.put("heartbeat.interval.ms", "1000");
        all.put("fetch.max.wait.ms", "100");
        all.put("default.api.timeout.ms", "10000");
        String[] life = {"java-member/" + lives.incrementAndGet()};
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) { }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                    life[0] = "java-member/" + lives.incrementAndGet();
                }
            });
            while (running) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<String, String> record : records) {
                    say("read " + life[0] + " " + record.topic() + " " + record.partition() + " " + record.offset() + " " + record.value());
                }
                if (!records.isEmpty()) {
                    try {
                        consumer.commitSync();
                    } catch (KafkaException error) {
                        say("error java-commit " + error.getClass().getSimpleName());
                    }
                }
            }
        }
    }
}
