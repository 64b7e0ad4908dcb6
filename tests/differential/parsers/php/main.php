<?php
// Parses framed requests on standard input with PHP's own request parsing; parsers/python/main.py describes the frames
// and the answers. PHP reads bodies only where a server calls it, so this is the server: it starts php-cgi and speaks
// FastCGI with it.

// Runs inside php-cgi, once for each request.
if (PHP_SAPI === 'cgi-fcgi') {
    $found = [];
    $add = function (string $place, string|int $name, mixed $value) use (&$add, &$found): void {
        if (is_array($value)) {
            $found[] = [$place, (string) $name, ''];
            foreach ($value as $key => $member) {
                $add($place, $key, $member);
            }
        } elseif (is_string($value)) {
            $found[] = [$place, (string) $name, $value];
        }
    };
    foreach ([['arg', $_GET], ['arg', $_POST], ['cookie', $_COOKIE]] as [$place, $values]) {
        foreach ($values as $name => $value) {
            $add($place, $name, $value);
        }
    }
    foreach ($_FILES as $name => $file) {
        $add('file', $name, $file['name']);
        $add('file', $name, $file['full_path'] ?? '');
    }
    if (str_contains(strtolower($_SERVER['CONTENT_TYPE'] ?? ''), 'json')) {
        $add('arg', '', json_decode(file_get_contents('php://input'), true));
    }
    echo json_encode($found, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES);
    return;
}

function record(int $type, string $content): string
{
    $out = '';
    do {
        $piece = substr($content, 0, 65535);
        $content = substr($content, strlen($piece));
        $out .= pack('CCnnCC', 1, $type, 1, strlen($piece), 0, 0) . $piece;
    } while ($content !== '');
    return $out;
}

function parameters(array $values): string
{
    $out = '';
    foreach ($values as $name => $value) {
        $out .= pack('N', strlen($name) | 0x80000000) . pack('N', strlen($value) | 0x80000000) . $name . $value;
    }
    return $out;
}

function exactly($stream, int $length): ?string
{
    $out = '';
    while (strlen($out) < $length) {
        $piece = fread($stream, $length - strlen($out));
        if ($piece === false || $piece === '') {
            return null;
        }
        $out .= $piece;
    }
    return $out;
}

function answer(string $address, array $environment, string $body): string
{
    static $server = null;
    for ($attempt = 0; $attempt < 3; $attempt++) {
        $server ??= @stream_socket_client($address) ?: null;
        if ($server === null) {
            usleep(50000);
            continue;
        }
        $end = $body === '' ? '' : record(5, '');
        $request = record(1, pack('nCx5', 1, 1)) . record(4, parameters($environment)) . record(4, '') . record(5, $body) . $end;
        fwrite($server, $request);
        $out = '';
        while (($head = exactly($server, 8)) !== null) {
            ['type' => $type, 'length' => $length, 'padding' => $padding] = unpack('Cversion/Ctype/nid/nlength/Cpadding', $head);
            $content = $length + $padding > 0 ? substr(exactly($server, $length + $padding) ?? '', 0, $length) : '';
            if ($type === 6) {
                $out .= $content;
            } elseif ($type === 3) {
                return explode("\r\n\r\n", $out, 2)[1] ?? '[]';
            }
        }
        fclose($server);
        $server = null;
    }
    return '[]';
}

$folder = sys_get_temp_dir() . '/glacis-differential-' . getmypid();
mkdir($folder);
$socket = "$folder/socket";
$command = ['php-cgi', '-d', 'cgi.force_redirect=0', '-d', 'display_errors=0', '-d', 'log_errors=0', '-d', 'html_errors=0',
    '-d', "upload_tmp_dir=$folder", '-b', $socket];
$server = proc_open($command, [['file', '/dev/null', 'r'], ['file', '/dev/null', 'w'], ['file', '/dev/null', 'w']], $pipes, null,
    ['PHP_FCGI_CHILDREN' => '0', 'PHP_FCGI_MAX_REQUESTS' => '0', 'PATH' => getenv('PATH')]);
for ($wait = 0; $wait < 100 && !file_exists($socket); $wait++) {
    usleep(50000);
}
register_shutdown_function(function () use ($server, $folder, $socket): void {
    proc_terminate($server);
    @unlink($socket);
    @rmdir($folder);
});

while (true) {
    $fields = [];
    for ($field = 0; $field < 4; $field++) {
        $length = exactly(STDIN, 4);
        if ($length === null) {
            exit;
        }
        $length = unpack('N', $length)[1];
        $fields[] = $length > 0 ? exactly(STDIN, $length) : '';
    }
    [$type, $query, $cookie, $body] = $fields;
    $environment = ['SCRIPT_FILENAME' => __FILE__, 'REQUEST_METHOD' => 'POST', 'QUERY_STRING' => $query,
        'CONTENT_LENGTH' => (string) strlen($body), 'GATEWAY_INTERFACE' => 'CGI/1.1', 'SERVER_PROTOCOL' => 'HTTP/1.1'];
    if ($type !== '') {
        $environment['CONTENT_TYPE'] = $type;
    }
    if ($cookie !== '') {
        $environment['HTTP_COOKIE'] = $cookie;
    }
    $line = answer("unix://$socket", $environment, $body);
    echo str_starts_with($line, '[') && json_validate_list($line) ? $line : '[]', "\n";
}

function json_validate_list(string $line): bool
{
    return !str_contains($line, "\n") && is_array(json_decode($line, true));
}
