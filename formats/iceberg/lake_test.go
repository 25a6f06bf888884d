package iceberg_test

import (
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/streambed/streambed/formats"
)

func TestStockScannerAgreesOnVectors(t *testing.T) {
	e := newEnv(t)
	ref := e.create("public", "orders")
	e.check(ref.Name, contents{})
	a, b := e.rows(ref, 0, 10, "a"), e.rows(ref, 10, 10, "b")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{a, b}})
	want := contents{}.fill(0, 10, "a").fill(10, 10, "b")
	e.check(ref.Name, want)
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: positions(1), b.Path: positions(2)}})
	e.check(ref.Name, want.drop(1, 12))
	c := e.rows(ref, 20, 5, "c")
	e.commit(formats.TableChange{Table: ref, Add: []formats.DataFile{c}, Deletes: map[string]*roaring.Bitmap{
		a.Path: positions(3), b.Path: positions(4, 5), c.Path: positions(0)}})
	e.check(ref.Name, want.fill(20, 5, "c").drop(3, 14, 15, 20))
	e.open()
	e.commit(formats.TableChange{Table: ref, Deletes: map[string]*roaring.Bitmap{a.Path: positions(9)}})
	e.check(ref.Name, want.drop(9))
}
