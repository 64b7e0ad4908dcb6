// Coraza behind Envoy's ext_proc, the least that does it: what `cargo xtask bench barbacana` calls envoy-coraza-ext-proc.
// Envoy has to send the head and, if there is one, the whole body (BUFFERED).
//
//	coraza-ext-proc SOCKET RULES.conf
package main

import (
	"bytes"
	"io"
	"log"
	"net"
	"os"
	"strings"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	status "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
)

const messageBytesMax = 16 << 20

type server struct {
	extproc.UnimplementedExternalProcessorServer
	waf coraza.WAF
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: coraza-ext-proc SOCKET RULES.conf")
	}
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectivesFromFile(os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	serving := grpc.NewServer(grpc.MaxRecvMsgSize(messageBytesMax))
	extproc.RegisterExternalProcessorServer(serving, &server{waf: waf})
	log.Fatal(serving.Serve(listener))
}

// Process answers the messages of one request.
func (s *server) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	tx := s.waf.NewTransaction()
	defer tx.Close()
	defer tx.ProcessLogging()
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := answered(tx, message)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func answered(tx types.Transaction, message *extproc.ProcessingRequest) (*extproc.ProcessingResponse, error) {
	switch part := message.Request.(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		interruption := head(tx, message, part.RequestHeaders)
		if interruption == nil && part.RequestHeaders.EndOfStream {
			var err error
			if interruption, err = tx.ProcessRequestBody(); err != nil {
				return nil, err
			}
		}
		if interruption != nil {
			return refusal(interruption), nil
		}
		return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extproc.HeadersResponse{},
		}}, nil
	case *extproc.ProcessingRequest_RequestBody:
		interruption, _, err := tx.ReadRequestBodyFrom(bytes.NewReader(part.RequestBody.Body))
		if err == nil && interruption == nil {
			interruption, err = tx.ProcessRequestBody()
		}
		if err != nil {
			return nil, err
		}
		if interruption != nil {
			return refusal(interruption), nil
		}
		return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestBody{
			RequestBody: &extproc.BodyResponse{},
		}}, nil
	default:
		return &extproc.ProcessingResponse{}, nil
	}
}

func head(tx types.Transaction, message *extproc.ProcessingRequest, headers *extproc.HttpHeaders) *types.Interruption {
	client := ""
	if attributes := message.Attributes["envoy.filters.http.ext_proc"]; attributes != nil {
		client = attributes.Fields["source.address"].GetStringValue()
	}
	address, _, _ := strings.Cut(client, ":")
	tx.ProcessConnection(address, 0, "", 0)
	method, path := "", ""
	for _, field := range headers.Headers.Headers {
		value := field.Value
		if len(field.RawValue) > 0 {
			value = string(field.RawValue)
		}
		switch field.Key {
		case ":method":
			method = value
		case ":path":
			path = value
		case ":authority":
			tx.AddRequestHeader("host", value)
			tx.SetServerName(value)
		default:
			if !strings.HasPrefix(field.Key, ":") {
				tx.AddRequestHeader(field.Key, value)
			}
		}
	}
	tx.ProcessURI(path, method, "HTTP/1.1")
	return tx.ProcessRequestHeaders()
}

func refusal(interruption *types.Interruption) *extproc.ProcessingResponse {
	code := status.StatusCode(interruption.Status)
	if interruption.Status == 0 {
		code = status.StatusCode_Forbidden
	}
	return &extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extproc.ImmediateResponse{Status: &status.HttpStatus{Code: code}},
	}}
}
