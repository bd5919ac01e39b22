// Writes a million short lines with the cause of its failure in the middle.
import { writeSync } from 'node:fs'

const lines = Number(process.argv[2] ?? '1000000')
let batch = ''
for (let line = 1; line <= lines; line += 1) {
  batch += line === lines / 2 ? 'CUDA error: an illegal memory access was encountered\n' : `line ${line}\n`
  if (batch.length < 60_000 && line < lines) continue
  const bytes = Buffer.from(batch)
  for (let at = 0; at < bytes.length;) at += writeSync(2, bytes, at)
  batch = ''
}
process.exit(1)
