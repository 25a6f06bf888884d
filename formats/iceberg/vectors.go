package iceberg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/puffin"
)

// A deletion vector's blob: length of what follows but for the checksum (4 bytes, big-endian), magic, number of
// 32-bit bitmaps (8 bytes, little-endian) and for each its key (4) and portable bytes, CRC-32 of magic and bitmaps.
const (
	vectorMagic  = "\xD1\xD3\x39\x64"
	vectorHeader = 4 + 4 + 8 + 4
)

// encodeVector gives the blob of a bitmap, which is not empty.
func encodeVector(bits *roaring.Bitmap) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(vectorHeader + int(bits.GetSerializedSizeInBytes()) + 4)
	b.Write(make([]byte, 4))
	b.WriteString(vectorMagic)
	b.Write(binary.LittleEndian.AppendUint64(nil, 1))
	b.Write(binary.LittleEndian.AppendUint32(nil, 0))
	if _, err := bits.WriteTo(&b); err != nil {
		return nil, err
	}
	blob := b.Bytes()
	binary.BigEndian.PutUint32(blob, uint32(len(blob)-4))
	return binary.BigEndian.AppendUint32(blob, crc32.ChecksumIEEE(blob[4:])), nil
}

// decodeVector reads a blob and checks it against the number of positions its manifest entry tells.
func decodeVector(blob []byte, cardinality int64) (*roaring.Bitmap, error) {
	n := len(blob)
	if n < vectorHeader-4+4 || int64(binary.BigEndian.Uint32(blob)) != int64(n-8) || string(blob[4:8]) != vectorMagic {
		return nil, fmt.Errorf("not a deletion vector")
	}
	if crc32.ChecksumIEEE(blob[4:n-4]) != binary.BigEndian.Uint32(blob[n-4:]) {
		return nil, fmt.Errorf("the deletion vector's checksum is wrong")
	}
	bits := roaring.New()
	switch count := binary.LittleEndian.Uint64(blob[8:16]); {
	case count == 0:
	case count == 1 && n >= vectorHeader+4 && binary.LittleEndian.Uint32(blob[16:20]) == 0:
		if _, err := bits.ReadFrom(bytes.NewReader(blob[20 : n-4])); err != nil {
			return nil, fmt.Errorf("the deletion vector's bitmap: %w", err)
		}
	default:
		return nil, fmt.Errorf("the deletion vector holds positions of 2^32 and more")
	}
	if got := int64(bits.GetCardinality()); got != cardinality {
		return nil, fmt.Errorf("the deletion vector holds %d positions, its manifest entry tells %d", got, cardinality)
	}
	return bits, nil
}

// vectorFile collects the vectors of one commit into one Puffin file.
type vectorFile struct {
	path  string
	body  bytes.Buffer
	w     *puffin.Writer
	blobs []vectorBlob
}

type vectorBlob struct {
	data        iceberg.DataFile
	meta        puffin.BlobMetadata
	cardinality int64
}

func newVectorFile(path string) (*vectorFile, error) {
	f := &vectorFile{path: path}
	w, err := puffin.NewWriter(&f.body)
	f.w = w
	return f, err
}

func (f *vectorFile) add(data iceberg.DataFile, bits *roaring.Bitmap) error {
	blob, err := encodeVector(bits)
	if err != nil {
		return err
	}
	cardinality := int64(bits.GetCardinality())
	meta, err := f.w.AddBlob(puffin.BlobMetadataInput{
		Type: puffin.BlobTypeDeletionVector, SnapshotID: -1, SequenceNumber: -1, Fields: []int32{},
		Properties: map[string]string{"referenced-data-file": data.FilePath(), "cardinality": strconv.FormatInt(cardinality, 10)},
	}, blob)
	f.blobs = append(f.blobs, vectorBlob{data: data, meta: meta, cardinality: cardinality})
	return err
}

// finish gives the file's bytes and one delete file a vector, in the order of add.
func (f *vectorFile) finish(spec func(id int) *iceberg.PartitionSpec) ([]byte, []iceberg.DataFile, error) {
	if err := f.w.Finish(); err != nil {
		return nil, nil, err
	}
	body := f.body.Bytes()
	files := make([]iceberg.DataFile, len(f.blobs))
	for i, blob := range f.blobs {
		partition := spec(int(blob.data.SpecID()))
		if partition == nil {
			return nil, nil, fmt.Errorf("%s has the unknown partition spec %d", blob.data.FilePath(), blob.data.SpecID())
		}
		b, err := iceberg.NewDataFileBuilder(*partition, iceberg.EntryContentPosDeletes, f.path, iceberg.PuffinFile,
			blob.data.Partition(), nil, nil, blob.cardinality, int64(len(body)))
		if err != nil {
			return nil, nil, err
		}
		files[i] = b.ReferencedDataFile(blob.data.FilePath()).ContentOffset(blob.meta.Offset).ContentSizeInBytes(blob.meta.Length).Build()
	}
	return body, files, nil
}
