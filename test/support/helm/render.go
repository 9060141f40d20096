// Renders the templates of a chart as Helm does: Go's text/template with sprig and Helm's own functions. It reads
// {"templates": {NAME: TEXT}, "data": {"Values": …}} and writes {NAME: TEXT}. Debian has both libraries, and not Helm.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

func main() {
	var given struct {
		Templates map[string]string
		Data      map[string]interface{}
	}
	decoder := json.NewDecoder(os.Stdin)
	decoder.UseNumber()
	check(decoder.Decode(&given))
	// JSON's numbers would be printed as 1.2e+02, and Helm's are integers where the values are.
	data := integers(given.Data).(map[string]interface{})

	// A value that is missing is an error, as with helm lint --strict.
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	delete(functions, "env")
	delete(functions, "expandenv")
	functions["include"] = func(name string, value interface{}) (string, error) {
		var text bytes.Buffer
		err := all.ExecuteTemplate(&text, name, value)
		return text.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		var text bytes.Buffer
		encoder := yaml.NewEncoder(&text)
		encoder.SetIndent(2)
		err := encoder.Encode(value)
		return strings.TrimSuffix(text.String(), "\n"), err
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(message)
		}
		return value, nil
	}
	all.Funcs(functions)
	for name, text := range given.Templates {
		_, err := all.New(name).Parse(text)
		check(err)
	}
	rendered := map[string]string{}
	for name := range given.Templates {
		if strings.HasSuffix(name, ".tpl") {
			continue
		}
		var text bytes.Buffer
		check(all.ExecuteTemplate(&text, name, data))
		rendered[name] = text.String()
	}
	check(json.NewEncoder(os.Stdout).Encode(rendered))
}

func integers(value interface{}) interface{} {
	switch typed := value.(type) {
	case map[string]interface{}:
		for key, each := range typed {
			typed[key] = integers(each)
		}
	case []interface{}:
		for index, each := range typed {
			typed[index] = integers(each)
		}
	case json.Number:
		if whole, err := typed.Int64(); err == nil {
			return whole
		}
		float, _ := typed.Float64()
		return float
	}
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
