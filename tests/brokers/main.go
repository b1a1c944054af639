// A second MQTT 5 broker for the tests: mochi, allowing everything, keeping nothing when it ends.
//
//	mochi PORT
package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: mochi PORT")
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	server := mqtt.New(&mqtt.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err := server.AddHook(new(auth.AllowHook), nil); err != nil {
		return err
	}
	if err := server.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: "127.0.0.1:" + os.Args[1]})); err != nil {
		return err
	}
	if err := server.Serve(); err != nil {
		return err
	}
	<-stop // and it ends as it is: closing waits for clients
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mochi:", err)
		os.Exit(1)
	}
}
