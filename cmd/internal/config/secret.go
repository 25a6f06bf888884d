package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxSecret bounds a secret's file in bytes: more is surely another file.
const maxSecret = 64 << 10

// readSecret reads a file that holds one secret; newlines at its end are no part of it.
func readSecret(path string) (string, error) {
	if _, err := absolute(path); err != nil {
		return "", err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the file %s does not exist; create it with the secret in it", path)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the file %s may not be read by this user; change its owner or mode", path)
	case err != nil:
		return "", fmt.Errorf("the file %s cannot be read: %w", path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return "", fmt.Errorf("%s is a folder; name the file with the secret in it", path)
	}
	body, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", path, err)
	}
	if len(body) > maxSecret {
		return "", fmt.Errorf("the file %s is larger than %d bytes, too large for a secret", path, maxSecret)
	}
	secret := strings.TrimRight(string(body), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("the file %s is empty; write the secret into it", path)
	}
	return secret, nil
}
