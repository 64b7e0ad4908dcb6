"""Parses framed requests on standard input with the parser named by the argument.

A frame is four fields (content type, query string, Cookie header, body), each a length of four bytes, big-endian, and
that many bytes; an empty field is absent. For each frame one line of JSON goes to standard output: a list of
[place, name, value], where the place is `arg`, `file` (the value is the file name), `cookie` or `xml`.
"""

import io
import json
import sys


def flatten(value, name=""):
    """Yields the names and strings of a JSON value."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield ["arg", key, ""]
            yield from flatten(member, key)
    elif isinstance(value, list):
        for member in value:
            yield from flatten(member, name)
    elif isinstance(value, str):
        yield ["arg", name, value]


def is_json(content_type):
    media_type = content_type.split(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")


def environ(content_type, query, cookie, body):
    """A WSGI environment, as a server makes it: header values are latin-1."""
    found = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "SCRIPT_NAME": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
        "QUERY_STRING": query.decode("latin-1"),
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.url_scheme": "http",
        "wsgi.version": (1, 0),
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
    }
    if content_type:
        found["CONTENT_TYPE"] = content_type.decode("latin-1")
    if cookie:
        found["HTTP_COOKIE"] = cookie.decode("latin-1")
    return found


def werkzeug():
    from werkzeug.wrappers import Request

    def parse(content_type, query, cookie, body):
        request = Request(environ(content_type, query, cookie, body))
        found = [["arg", name, value] for name, value in request.args.items(multi=True)]
        found += [["cookie", name, value] for name, value in request.cookies.items(multi=True)]
        if request.is_json:
            found += flatten(request.get_json())
        found += [["arg", name, value] for name, value in request.form.items(multi=True)]
        found += [["file", name, file.filename] for name, file in request.files.items(multi=True)]
        return found

    return parse


def django():
    from django.conf import settings

    settings.configure(
        DEFAULT_CHARSET="utf-8",
        FILE_UPLOAD_HANDLERS=["django.core.files.uploadhandler.MemoryFileUploadHandler"],
        ALLOWED_HOSTS=["*"],
    )
    from django.core.handlers.wsgi import WSGIRequest

    def parse(content_type, query, cookie, body):
        request = WSGIRequest(environ(content_type, query, cookie, body))
        found = []
        try:
            found += [["arg", name, value] for name, values in request.GET.lists() for value in values]
            found += [["cookie", name, value] for name, value in request.COOKIES.items()]
        except Exception:
            pass
        if is_json(request.content_type):
            found += flatten(json.loads(request.body))
        found += [["arg", name, value] for name, values in request.POST.lists() for value in values]
        found += [["file", name, file.name] for name, files in request.FILES.lists() for file in files]
        return found

    return parse


def starlette():
    from starlette.requests import Request

    async def parsed(scope, body):
        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        request = Request(scope, receive)
        found = [["arg", name, value] for name, value in request.query_params.multi_items()]
        found += [["cookie", name, value] for name, value in request.cookies.items()]
        if is_json(request.headers.get("content-type", "")):
            found += flatten(await request.json())
            return found
        form = await request.form()
        for name, value in form.multi_items():
            found.append(["arg", name, value] if isinstance(value, str) else ["file", name, value.filename])
        return found

    def parse(content_type, query, cookie, body):
        headers = [(b"host", b"localhost"), (b"content-length", str(len(body)).encode())]
        headers += [(b"content-type", content_type)] if content_type else []
        headers += [(b"cookie", cookie)] if cookie else []
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
        # No part of a body leaves memory, so nothing is awaited that is not ready.
        coroutine = parsed(scope, body)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        coroutine.close()
        raise RuntimeError("the parser waits for something")

    return parse


def tornado():
    import logging

    from tornado import httputil

    logging.disable(logging.CRITICAL)

    def text(value):
        return value.decode("utf-8", "replace")

    def parse(content_type, query, cookie, body):
        found = []
        for name, values in httputil.parse_qs_bytes(query.decode("latin-1"), keep_blank_values=True).items():
            found += [["arg", name, text(value)] for value in values]
        if cookie:
            found += [["cookie", *pair] for pair in httputil.parse_cookie(cookie.decode("latin-1")).items()]
        arguments, files = {}, {}
        httputil.parse_body_arguments(content_type.decode("latin-1"), body, arguments, files)
        for name, values in arguments.items():
            found += [["arg", name, text(value)] for value in values]
        for name, values in files.items():
            found += [["file", name, file["filename"]] for file in values]
        return found

    return parse


def aiohttp():
    import asyncio

    from aiohttp import web
    from aiohttp.base_protocol import BaseProtocol
    from aiohttp.streams import StreamReader
    from aiohttp.test_utils import make_mocked_request

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    protocol = BaseProtocol(loop)

    async def parsed(headers, query, body):
        payload = StreamReader(protocol, 2**16, loop=loop)
        payload.feed_data(body)
        payload.feed_eof()
        path = "/?" + query.decode("utf-8", "surrogateescape")
        request = make_mocked_request("POST", path, headers=headers, payload=payload, loop=loop)
        found = [["arg", name, value] for name, value in request.query.items()]
        found += [["cookie", name, value] for name, value in request.cookies.items()]
        if is_json(request.headers.get("Content-Type", "")):
            found += flatten(await request.json())
            return found
        for name, value in (await request.post()).items():
            is_file = isinstance(value, web.FileField)
            found.append(["file", name, value.filename] if is_file else ["arg", name, text(value)])
        return found

    def text(value):
        return value.decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else value

    def parse(content_type, query, cookie, body):
        headers = {"Host": "localhost", "Content-Length": str(len(body))}
        if content_type:
            headers["Content-Type"] = content_type.decode("utf-8", "surrogateescape")
        if cookie:
            headers["Cookie"] = cookie.decode("utf-8", "surrogateescape")
        return loop.run_until_complete(parsed(headers, query, body))

    return parse


def texts(root):
    """Yields what an application reads of elements: attributes, and text with what comments split put together."""
    for element in root.iter():
        if not isinstance(element.tag, str):
            continue
        yield from (["xml", name, value] for name, value in element.attrib.items())
        text = element.text or ""
        for child in element:
            if isinstance(child.tag, str):
                yield ["xml", element.tag, text]
                text = child.tail or ""
            else:
                text += child.tail or ""
        yield ["xml", element.tag, text]
        yield ["xml", element.tag, "".join(element.itertext())]


def lxml():
    from lxml import etree

    def parse(content_type, query, cookie, body):
        return list(texts(etree.fromstring(body, etree.XMLParser(no_network=True))))

    return parse


def expat():
    from xml.etree import ElementTree

    def parse(content_type, query, cookie, body):
        return list(texts(ElementTree.fromstring(body)))

    return parse


PARSERS = {
    function.__name__: function
    for function in [werkzeug, django, starlette, tornado, aiohttp, lxml, expat]
}


def frames(stream):
    while True:
        fields = []
        for _ in range(4):
            length = stream.read(4)
            if len(length) < 4:
                return
            fields.append(stream.read(int.from_bytes(length, "big")))
        yield fields


def plain(text):
    """A text without what JSON cannot carry: lone surrogates."""
    return "" if text is None else str(text).encode("utf-8", "replace").decode("utf-8")


def main():
    parse = PARSERS[sys.argv[1]]()
    for fields in frames(sys.stdin.buffer):
        try:
            found = parse(*fields)
        except Exception:
            found = []
        print(json.dumps([[plain(text) for text in item] for item in found]), flush=True)


main()
