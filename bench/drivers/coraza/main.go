// The benchmark's driver for Coraza; bench/README.md describes what all drivers take and print.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
	"golang.org/x/sys/unix"
)

const (
	passesMin  = 2
	passesMax  = 100_000
	lineLength = 64 << 20
)

type peer struct {
	IP   string `json:"ip"`
	Port int    `json:"port"`
}

type response struct {
	Status   int         `json:"status"`
	Protocol string      `json:"protocol"`
	Headers  [][2]string `json:"headers"`
	Body     []byte      `json:"body_base64"`
}

type request struct {
	ID       string      `json:"id"`
	Client   peer        `json:"client"`
	Server   peer        `json:"server"`
	Method   string      `json:"method"`
	URI      string      `json:"uri"`
	Protocol string      `json:"protocol"`
	Headers  [][2]string `json:"headers"`
	Body     []byte      `json:"body_base64"`
	Response *response   `json:"response"`
	host     string
}

type answer struct {
	ID       string `json:"id"`
	Verdict  string `json:"verdict"`
	Status   int    `json:"status"`
	Matched  []int  `json:"matched"`
	MedianNS int64  `json:"median_ns"`
	MeanNS   int64  `json:"mean_ns"`
	Samples  int    `json:"samples"`
}

type about struct {
	Engine   string  `json:"engine"`
	Version  string  `json:"version"`
	LoadMS   float64 `json:"load_ms"`
	RSSBytes int64   `json:"rss_bytes"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: coraza RULES.conf REQUESTS.jsonl SECONDS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rules, requestFile, duration string) error {
	// All work is counted, that of the collector too; one thread makes it repeatable.
	runtime.GOMAXPROCS(1)
	seconds, err := strconv.ParseFloat(duration, 64)
	if err != nil {
		return err
	}
	begin := time.Now()
	waf, err := coraza.NewWAF(coraza.NewWAFConfig().WithDirectivesFromFile(rules))
	if err != nil {
		return err
	}
	load := time.Since(begin)
	requests, err := read(requestFile)
	if err != nil {
		return err
	}
	answers, err := warmUp(waf, requests)
	if err != nil {
		return err
	}
	resident := rssBytes()
	if err := measure(waf, requests, answers, seconds); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	about := about{"coraza", version(), float64(load.Microseconds()) / 1e3, resident}
	if err := encoder.Encode(about); err != nil {
		return err
	}
	for _, answer := range answers {
		if err := encoder.Encode(answer); err != nil {
			return err
		}
	}
	return out.Flush()
}

func read(path string) ([]request, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, lineLength)
	var requests []request
	for lines.Scan() {
		var request request
		if err := json.Unmarshal(lines.Bytes(), &request); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, header := range request.Headers {
			if strings.EqualFold(header[0], "host") {
				request.host = header[1]
			}
		}
		requests = append(requests, request)
	}
	return requests, lines.Err()
}

// One pass that is not measured; it finds out the verdicts.
func warmUp(waf coraza.WAF, requests []request) ([]answer, error) {
	answers := make([]answer, len(requests))
	for index := range requests {
		tx, err := evaluate(waf, &requests[index])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", requests[index].ID, err)
		}
		answer := answer{ID: requests[index].ID, Verdict: "allow", Status: 200, Matched: []int{}}
		if interruption := tx.Interruption(); interruption != nil {
			answer.Verdict, answer.Status = "deny", interruption.Status
		}
		for _, rule := range tx.MatchedRules() {
			answer.Matched = append(answer.Matched, rule.Rule().ID())
		}
		answers[index] = answer
		if err := tx.Close(); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func measure(waf coraza.WAF, requests []request, answers []answer, seconds float64) error {
	samples := make([][]int64, len(requests))
	begin := cpuTime()
	for pass := 0; pass < passesMax; pass++ {
		if pass >= passesMin && float64(cpuTime()-begin) >= seconds*1e9 {
			break
		}
		for index := range requests {
			start := cpuTime()
			tx, err := evaluate(waf, &requests[index])
			if err != nil {
				return err
			}
			if err := tx.Close(); err != nil {
				return err
			}
			samples[index] = append(samples[index], cpuTime()-start)
		}
	}
	for index := range answers {
		var sum int64
		for _, sample := range samples[index] {
			sum += sample
		}
		slices.Sort(samples[index])
		count := len(samples[index])
		answers[index].Samples = count
		answers[index].MedianNS = samples[index][count/2]
		answers[index].MeanNS = sum / int64(count)
	}
	return nil
}

// A whole transaction but for its release.
func evaluate(waf coraza.WAF, request *request) (types.Transaction, error) {
	tx := waf.NewTransaction()
	err := evaluateRequest(tx, request)
	if err == nil && request.Response != nil && tx.Interruption() == nil {
		err = evaluateResponse(tx, request.Response)
	}
	tx.ProcessLogging()
	return tx, err
}

func evaluateRequest(tx types.Transaction, request *request) error {
	client, server := request.Client, request.Server
	tx.ProcessConnection(client.IP, client.Port, server.IP, server.Port)
	tx.ProcessURI(request.URI, request.Method, request.Protocol)
	for _, header := range request.Headers {
		tx.AddRequestHeader(header[0], header[1])
	}
	if host, _, err := net.SplitHostPort(request.host); err == nil {
		tx.SetServerName(host)
	} else {
		tx.SetServerName(request.host)
	}
	if tx.ProcessRequestHeaders() != nil {
		return nil
	}
	if len(request.Body) > 0 {
		interruption, _, err := tx.WriteRequestBody(request.Body)
		if interruption != nil || err != nil {
			return err
		}
	}
	_, err := tx.ProcessRequestBody()
	return err
}

func evaluateResponse(tx types.Transaction, response *response) error {
	for _, header := range response.Headers {
		tx.AddResponseHeader(header[0], header[1])
	}
	if tx.ProcessResponseHeaders(response.Status, response.Protocol) != nil {
		return nil
	}
	if tx.IsResponseBodyProcessable() {
		interruption, _, err := tx.WriteResponseBody(response.Body)
		if interruption != nil || err != nil {
			return err
		}
	}
	_, err := tx.ProcessResponseBody()
	return err
}

// The CPU time that all threads of this process have taken, in nanoseconds.
func cpuTime() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

func version() string {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/corazawaf/coraza/v3" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

// Memory in use (proc(5), statm); 0 where the system does not tell.
func rssBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
