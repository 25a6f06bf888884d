package queryd

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgproto3"
)

// tell sends a reported setting's new value.
func (s *settings) tell(name string) {
	if report := known[name].report; report != "" {
		s.session.conn.Send(&pgproto3.ParameterStatus{Name: report, Value: s.current[name]})
	}
}

// tellAll sends all reported settings, at the end of startup.
func (s *settings) tellAll() {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		s.tell(name)
	}
}

func sortedSettings() []string { return slices.Sorted(maps.Keys(known)) }
