// SPDX-License-Identifier: MIT

// Command hapax-e2e-go is the official Go SDK as a client and as a server of the end-to-end tests:
//
//	hapax-e2e-go client              the verbs of driver.mjs on standard input, HTTP only
//	hapax-e2e-go server DIR [WAY]    the twin of server.mjs
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type order struct {
	Ref       int            `json:"ref"`
	Do        string         `json:"do"`
	URL       string         `json:"url"`
	Tool      string         `json:"tool"`
	Args      map[string]any `json:"args"`
	TimeoutMS int            `json:"timeout_ms"`
	Key       string         `json:"key"`
	Of        int            `json:"of"`
}

type driver struct {
	lock    sync.Mutex
	session *mcp.ClientSession
	aborts  map[int]context.CancelFunc
}

func (d *driver) obey(o order) (any, error) {
	switch o.Do {
	case "connect":
		client := mcp.NewClient(&mcp.Implementation{Name: "hapax-e2e", Version: "1"}, nil)
		transport := &mcp.StreamableClientTransport{Endpoint: o.URL}
		session, err := client.Connect(context.Background(), transport, nil)
		if err != nil {
			return nil, err
		}
		d.session = session
		return map[string]any{"version": session.InitializeResult().ProtocolVersion}, nil
	case "call":
		return d.call(o)
	case "list":
		return d.session.ListTools(context.Background(), nil)
	case "abort":
		d.lock.Lock()
		defer d.lock.Unlock()
		d.aborts[o.Of]()
		return map[string]any{}, nil
	case "close":
		return map[string]any{}, d.session.Close()
	}
	return nil, fmt.Errorf("no such order: %s", o.Do)
}

func (d *driver) call(o order) (any, error) {
	timeout := time.Minute
	if o.TimeoutMS > 0 {
		timeout = time.Duration(o.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	d.lock.Lock()
	d.aborts[o.Ref] = cancel
	d.lock.Unlock()
	params := &mcp.CallToolParams{Name: o.Tool, Arguments: o.Args}
	if o.Key != "" {
		params.Meta = mcp.Meta{"dev.hapax/idempotencyKey": o.Key}
	}
	return d.session.CallTool(ctx, params)
}

func explain(err error) map[string]any {
	told := map[string]any{"kind": fmt.Sprintf("%T", err), "message": err.Error()}
	var wire *jsonrpc.Error
	if errors.As(err, &wire) {
		told["code"] = wire.Code
	}
	return told
}

func drive() {
	var writing sync.Mutex
	d := &driver{aborts: map[int]context.CancelFunc{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			panic(err)
		}
		if o.Do == "quit" {
			return
		}
		go func() {
			answer := map[string]any{"ref": o.Ref}
			if ok, err := d.obey(o); err != nil {
				answer["error"] = explain(err)
			} else {
				answer["ok"] = ok
			}
			text, err := json.Marshal(answer)
			if err != nil {
				panic(err)
			}
			writing.Lock()
			defer writing.Unlock()
			os.Stdout.Write(append(text, '\n'))
		}()
	}
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == "server" {
		way := ""
		if len(os.Args) > 3 {
			way = os.Args[3]
		}
		serve(os.Args[2], way)
		return
	}
	drive()
}
