import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Kafka's own assignors behind a line protocol. A question is one line of fields separated by spaces:
 * assignor, topics (name:racks|racks|…, where racks is a+b or -, one per partition, joined by ;), members
 * (id,instance or -,topics a+b,owned t.0+t.1 or -,generation,rack or -, joined by ;). The answer is id=t.0+t.1;…
 */
public class AssignorOracle {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split(" ");
            System.out.println(answer(assignor(fields[0]), cluster(fields[1]), group(fields[2])));
            System.out.flush();
        }
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Cluster cluster(String text) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        Node nowhere = new Node(0, "h", 1);
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : text.split(";")) {
            String[] parts = topic.split(":");
            String[] racks = parts[1].split("\\|");
            for (int number = 0; number < racks.length; number++) {
                List<Node> replicas = new ArrayList<>();
                for (String rack : list(racks[number])) {
                    replicas.add(nodes.computeIfAbsent(rack, each -> new Node(nodes.size() + 1, "h", 1, each)));
                }
                if (replicas.isEmpty()) replicas.add(nowhere);
                Node[] array = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(parts[0], number, array[0], array, array));
            }
        }
        Set<Node> all = new LinkedHashSet<>(nodes.values());
        all.add(nowhere);
        return new Cluster("c", all, partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static GroupSubscription group(String text) {
        Map<String, Subscription> members = new HashMap<>();
        for (String member : text.split(";")) {
            String[] parts = member.split(",");
            List<TopicPartition> owned = new ArrayList<>();
            for (String each : list(parts[3])) {
                String[] place = each.split("\\.");
                owned.add(new TopicPartition(place[0], Integer.parseInt(place[1])));
            }
            Optional<String> rack = parts[5].equals("-") ? Optional.empty() : Optional.of(parts[5]);
            Subscription subscription =
                new Subscription(list(parts[2]), null, owned, Integer.parseInt(parts[4]), rack);
            if (!parts[1].equals("-")) subscription.setGroupInstanceId(Optional.of(parts[1]));
            members.put(parts[0], subscription);
        }
        return new GroupSubscription(members);
    }

    private static List<String> list(String text) {
        return text.equals("-") ? Collections.emptyList() : Arrays.asList(text.split("\\+"));
    }

    private static String answer(ConsumerPartitionAssignor assignor, Cluster cluster, GroupSubscription group) {
        List<String> parts = new ArrayList<>();
        Map<String, ConsumerPartitionAssignor.Assignment> plan =
            new TreeMap<>(assignor.assign(cluster, group).groupAssignment());
        for (Map.Entry<String, ConsumerPartitionAssignor.Assignment> entry : plan.entrySet()) {
            List<String> names = new ArrayList<>();
            for (TopicPartition each : entry.getValue().partitions()) names.add(each.topic() + "." + each.partition());
            parts.add(entry.getKey() + "=" + String.join("+", names));
        }
        return String.join(";", parts);
    }
}
