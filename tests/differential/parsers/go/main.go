// Parses framed requests on standard input with the parser named by the argument; parsers/python/main.py describes
// the frames and the answers.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

type item = [3]string

type fields struct{ contentType, query, cookie, body []byte }

func flatten(found []item, name string, value any) []item {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			found = flatten(append(found, item{"arg", key, ""}), key, member)
		}
	case []any:
		for _, member := range value {
			found = flatten(found, name, member)
		}
	case string:
		found = append(found, item{"arg", name, value})
	}
	return found
}

func values(found []item, all url.Values) []item {
	for name, values := range all {
		for _, value := range values {
			found = append(found, item{"arg", name, value})
		}
	}
	return found
}

func files(found []item, form *multipart.Form) []item {
	if form == nil {
		return found
	}
	for name, headers := range form.File {
		for _, header := range headers {
			found = append(found, item{"file", name, header.Filename})
		}
	}
	return found
}

func mediaType(contentType []byte) string {
	text, _, _ := strings.Cut(string(contentType), ";")
	return strings.ToLower(strings.TrimSpace(text))
}

type element struct {
	Attributes []xml.Attr `xml:",any,attr"`
	Text       string     `xml:",chardata"`
	Children   []element  `xml:",any"`
}

func texts(found []item, root element) []item {
	found = append(found, item{"xml", "", root.Text})
	for _, attribute := range root.Attributes {
		found = append(found, item{"xml", attribute.Name.Local, attribute.Value})
	}
	for _, child := range root.Children {
		found = texts(found, child)
	}
	return found
}

func request(f fields) *http.Request {
	request := httptest.NewRequest("POST", "/", bytes.NewReader(f.body))
	request.URL.RawQuery = string(f.query)
	if len(f.contentType) > 0 {
		request.Header.Set("Content-Type", string(f.contentType))
	}
	if len(f.cookie) > 0 {
		request.Header.Set("Cookie", string(f.cookie))
	}
	return request
}

// A body that applications decode after they have looked at its type.
func document(found []item, f fields, bindJSON, bindXML func(any) error) []item {
	switch kind := mediaType(f.contentType); {
	case strings.HasSuffix(kind, "json"):
		var value any
		if bindJSON(&value) == nil {
			found = flatten(found, "", value)
		}
	case strings.HasSuffix(kind, "xml"):
		var root element
		if bindXML(&root) == nil {
			found = texts(found, root)
		}
	}
	return found
}

func netHTTP(f fields) (found []item) {
	incoming := request(f)
	for _, cookie := range incoming.Cookies() {
		found = append(found, item{"cookie", cookie.Name, cookie.Value})
	}
	json := func(into any) error { return json.NewDecoder(bytes.NewReader(f.body)).Decode(into) }
	xml := func(into any) error { return xml.NewDecoder(bytes.NewReader(f.body)).Decode(into) }
	found = document(found, f, json, xml)
	incoming.ParseMultipartForm(1 << 20)
	return files(values(found, incoming.Form), incoming.MultipartForm)
}

func ginGonic() func(fields) []item {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	var f fields
	var found []item
	engine.POST("/", func(context *gin.Context) {
		for _, cookie := range context.Request.Cookies() {
			if value, err := context.Cookie(cookie.Name); err == nil {
				found = append(found, item{"cookie", cookie.Name, value})
			}
		}
		found = values(found, context.Request.URL.Query())
		found = document(found, f, context.ShouldBindJSON, context.ShouldBindXML)
		form, _ := context.MultipartForm()
		found = files(values(found, context.Request.PostForm), form)
		for key, value := range context.PostFormMap("a") {
			found = append(found, item{"arg", key, value})
		}
		for key, value := range context.QueryMap("a") {
			found = append(found, item{"arg", key, value})
		}
	})
	return func(next fields) []item {
		f, found = next, nil
		engine.ServeHTTP(httptest.NewRecorder(), request(next))
		return found
	}
}

func goFiber() func(fields) []item {
	var found []item
	app := fiber.New()
	app.Post("/", func(context *fiber.Ctx) error {
		argument := func(name, value []byte) { found = append(found, item{"arg", string(name), string(value)}) }
		context.Request().Header.VisitAllCookie(func(name, value []byte) {
			found = append(found, item{"cookie", string(name), string(value)})
		})
		context.Context().QueryArgs().VisitAll(argument)
		context.Context().PostArgs().VisitAll(argument)
		if strings.HasSuffix(mediaType(context.Request().Header.ContentType()), "json") {
			var value any
			if json.Unmarshal(context.Body(), &value) == nil {
				found = flatten(found, "", value)
			}
		}
		if form, err := context.MultipartForm(); err == nil {
			found = files(values(found, form.Value), form)
		}
		return nil
	})
	handle := app.Handler()
	return func(f fields) []item {
		found = nil
		var context fasthttp.RequestCtx
		context.Request.Header.SetMethod("POST")
		context.Request.Header.SetHost("localhost")
		context.Request.SetRequestURI("/?" + string(f.query))
		if len(f.contentType) > 0 {
			context.Request.Header.SetContentTypeBytes(f.contentType)
		}
		if len(f.cookie) > 0 {
			context.Request.Header.SetBytesV("Cookie", f.cookie)
		}
		context.Request.SetBody(f.body)
		handle(&context)
		return found
	}
}

func frame(in *bufio.Reader) (f fields, err error) {
	for _, field := range []*[]byte{&f.contentType, &f.query, &f.cookie, &f.body} {
		var length uint32
		if err = binary.Read(in, binary.BigEndian, &length); err != nil {
			return
		}
		*field = make([]byte, length)
		if _, err = io.ReadFull(in, *field); err != nil {
			return
		}
	}
	return
}

func guarded(parse func(fields) []item, f fields) (found []item) {
	defer func() { _ = recover() }()
	return parse(f)
}

func main() {
	parse := map[string]func() func(fields) []item{
		"net-http": func() func(fields) []item { return netHTTP },
		"gin":      ginGonic,
		"fiber":    goFiber,
	}[os.Args[1]]()
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		f, err := frame(in)
		if err != nil {
			return
		}
		found := guarded(parse, f)
		if found == nil {
			found = []item{}
		}
		line, _ := json.Marshal(found)
		out.Write(append(line, '\n'))
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
}
