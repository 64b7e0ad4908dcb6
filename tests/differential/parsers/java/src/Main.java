import jakarta.servlet.MultipartConfigElement;
import jakarta.servlet.http.Cookie;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.servlet.http.Part;
import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Map;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.apache.catalina.Context;
import org.apache.catalina.Wrapper;
import org.apache.catalina.startup.Tomcat;

/**
 * Parses framed requests on standard input with Tomcat; parsers/python/main.py describes the frames and the answers. Tomcat
 * parses what comes over a connection, so this is also the client, on the loopback interface.
 */
public final class Main {
    static final class Echo extends HttpServlet {
        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            StringBuilder found = new StringBuilder("[");
            Cookie[] cookies = request.getCookies();
            for (Cookie cookie : cookies == null ? new Cookie[0] : cookies) {
                add(found, "cookie", cookie.getName(), cookie.getValue());
            }
            try {
                for (Map.Entry<String, String[]> pair : request.getParameterMap().entrySet()) {
                    for (String value : pair.getValue()) {
                        add(found, "arg", pair.getKey(), value);
                    }
                }
            } catch (RuntimeException error) {
                // Parameters that cannot be read: the application gets none.
            }
            try {
                for (Part part : request.getParts()) {
                    if (part.getSubmittedFileName() == null) {
                        add(found, "arg", part.getName(), new String(part.getInputStream().readAllBytes(), StandardCharsets.UTF_8));
                    } else {
                        add(found, "file", part.getName(), part.getSubmittedFileName());
                    }
                }
            } catch (Exception error) {
                // Not multipart, or broken.
            }
            byte[] answer = found.append("]").toString().getBytes(StandardCharsets.UTF_8);
            response.setContentLength(answer.length);
            response.getOutputStream().write(answer);
        }
    }

    static void add(StringBuilder found, String place, String name, String value) {
        found.append(found.length() > 1 ? "," : "").append("[\"").append(place).append("\",");
        quote(found, name);
        found.append(',');
        quote(found, value);
        found.append(']');
    }

    static void quote(StringBuilder found, String text) {
        found.append('"');
        for (char c : (text == null ? "" : text).toCharArray()) {
            if (c < ' ' || c == '"' || c == '\\' || c > '~') {
                found.append(String.format("\\u%04x", Character.isSurrogate(c) ? 0xfffd : (int) c));
            } else {
                found.append(c);
            }
        }
        found.append('"');
    }

    static byte[] field(DataInputStream input) throws IOException {
        byte[] bytes = new byte[input.readInt()];
        input.readFully(bytes);
        return bytes;
    }

    static String line(InputStream input) throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int c = input.read(); c != '\n'; c = input.read()) {
            if (c < 0) {
                throw new EOFException();
            }
            if (c != '\r') {
                line.write(c);
            }
        }
        return line.toString(StandardCharsets.ISO_8859_1);
    }

    static Socket socket;
    static InputStream answers;

    /** The body of the answer; an empty list for any status but 200. */
    static String ask(int port, byte[] request) throws IOException {
        if (socket == null) {
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setTcpNoDelay(true);
            answers = new BufferedInputStream(socket.getInputStream());
        }
        socket.getOutputStream().write(request);
        boolean good = line(answers).contains(" 200");
        boolean close = false;
        int length = 0;
        for (String header = line(answers); !header.isEmpty(); header = line(answers)) {
            String lower = header.toLowerCase();
            close |= lower.startsWith("connection:") && lower.contains("close");
            length = lower.startsWith("content-length:") ? Integer.parseInt(lower.substring(15).trim()) : length;
        }
        byte[] body = answers.readNBytes(length);
        if (close || !good) {
            socket.close();
            socket = null;
        }
        return good ? new String(body, StandardCharsets.UTF_8) : "[]";
    }

    static byte[] request(byte[] type, byte[] query, byte[] cookie, byte[] body) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        out.write("POST /?".getBytes());
        out.write(query);
        out.write((" HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + body.length + "\r\n").getBytes());
        if (type.length > 0) {
            out.write("Content-Type: ".getBytes());
            out.write(type);
            out.write("\r\n".getBytes());
        }
        if (cookie.length > 0) {
            out.write("Cookie: ".getBytes());
            out.write(cookie);
            out.write("\r\n".getBytes());
        }
        out.write("\r\n".getBytes());
        out.write(body);
        return out.toByteArray();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Logger.getLogger("").setLevel(Level.OFF);
        Tomcat tomcat = new Tomcat();
        String folder = Files.createTempDirectory("glacis-differential").toString();
        tomcat.setBaseDir(folder);
        tomcat.setPort(0);
        tomcat.getConnector().setProperty("address", "127.0.0.1");
        tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1");
        tomcat.getConnector().setProperty("relaxedQueryChars", "\"<>[\\]^`{|}");
        Context context = tomcat.addContext("", folder);
        Wrapper servlet = Tomcat.addServlet(context, "echo", new Echo());
        servlet.setMultipartConfigElement(new MultipartConfigElement(folder, -1, -1, 1 << 20));
        context.addServletMappingDecoded("/", "echo");
        tomcat.start();
        DataInputStream input = new DataInputStream(new BufferedInputStream(System.in));
        while (true) {
            byte[][] fields = new byte[4][];
            try {
                for (int index = 0; index < 4; index++) {
                    fields[index] = field(input);
                }
            } catch (EOFException end) {
                tomcat.stop();
                System.exit(0);
            }
            String found;
            try {
                found = ask(tomcat.getConnector().getLocalPort(), request(fields[0], fields[1], fields[2], fields[3]));
            } catch (IOException error) {
                socket = null;
                found = "[]";
            }
            output.println(found);
            output.flush();
        }
    }
}
