// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The directory of the test.
var dir string

func appendLine(name string, line []byte) {
	file, err := os.OpenFile(dir+"/"+name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	file.Write(append(line, '\n'))
	file.Sync()
}

// tape copies the whole lines of one direction.
type tape struct {
	lock sync.Mutex
	from string
	rest []byte
}

func (t *tape) write(data []byte) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.rest = append(t.rest, data...)
	for {
		end := bytes.IndexByte(t.rest, '\n')
		if end < 0 {
			return
		}
		record, _ := json.Marshal(map[string]string{
			"from": t.from, "at": "server", "line": string(t.rest[:end])})
		appendLine(fmt.Sprintf("wire/server-%d.jsonl", os.Getpid()), record)
		t.rest = t.rest[end+1:]
	}
}

type tapedReader struct {
	io.ReadCloser
	tape *tape
}

func (r tapedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.tape.write(p[:n])
	return n, err
}

type tapedWriter struct {
	io.WriteCloser
	tape *tape
}

func (w tapedWriter) Write(p []byte) (int, error) {
	w.tape.write(p)
	return w.WriteCloser.Write(p)
}

func uuid() string {
	var b [16]byte
	rand.Read(b[:])
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func charge(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var args map[string]any
	if err := json.Unmarshal(request.Params.Arguments, &args); err != nil {
		return nil, err
	}
	receipt := uuid()
	effect, _ := json.Marshal(map[string]any{"receipt": receipt, "pid": os.Getpid(), "args": args})
	appendLine("effects", effect)
	if args["slow"] == true {
		for tries := 0; tries < 6000; tries++ {
			if _, err := os.Stat(dir + "/release"); err == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	text := &mcp.TextContent{Text: "receipt " + receipt}
	return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil
}

func serve(directory, way string) {
	dir = directory
	server := mcp.NewServer(&mcp.Implementation{Name: "charge", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{
		Name:        "charge",
		Description: "Charges a card once per call.",
		InputSchema: json.RawMessage(`{"type":"object","properties":` +
			`{"amount":{"type":"number"},"slow":{"type":"boolean"}}}`),
	}, charge)
	appendLine("starts", fmt.Appendf(nil, "%d", os.Getpid()))
	if way == "" {
		transport := &mcp.IOTransport{
			Reader: tapedReader{os.Stdin, &tape{from: "client"}},
			Writer: tapedWriter{os.Stdout, &tape{from: "server"}},
		}
		server.Run(context.Background(), transport)
		return
	}
	options := &mcp.StreamableHTTPOptions{}
	if way == "events" {
		options.EventStore = mcp.NewMemoryEventStore(nil)
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options)
	port := os.Getenv("PORT")
	if port == "" {
		port = "0"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	panic(http.Serve(listener, handler))
}
