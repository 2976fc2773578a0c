import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints every attribute of every MBean of Kafka's, one a line, as the JMX exporter names them: domain&lt;keys&gt;attribute. */
public class MBeanNames {
    public static void main(String[] arguments) throws Exception {
        String address = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        try (var connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            var lines = new TreeSet<String>();
            for (ObjectName name : beans.queryNames(new ObjectName("kafka.*:*"), null)) {
                // The order of the keys as they were registered, which the exporter's patterns rely upon.
                String keys = name.getKeyPropertyListString().replace("\"", "").replace(",", ", ");
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
                    lines.add(name.getDomain() + "<" + keys + "><>" + attribute.getName());
                }
            }
            lines.forEach(System.out::println);
        }
    }
}
