package types

// Policy says what to do with a value that the lake's type cannot hold.
type Policy uint8

// KeepGoing bends the value as the package says and counts it, Refuse makes it an error that sets the table aside.
const (
	KeepGoing Policy = iota
	Refuse
)

// Options are the user's choices about values.
type Options struct {
	Unrepresentable Policy
	// Numeric is the lake type of a numeric column without precision: Decimal with its precision and scale, or String.
	// The zero value means decimal(38,18).
	Numeric Type
}
