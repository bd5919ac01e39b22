// Writes hundreds of megabytes without a newline, then the cause of its failure: on a new line, or right after the flood.
import { writeSync } from 'node:fs'

const [megabytes = '300', where = 'newline'] = process.argv.slice(2)
const piece = Buffer.alloc(1024 * 1024, '.')
for (let count = 0; count < Number(megabytes); count += 1) write(piece)
write(Buffer.from(`${where === 'newline' ? '\n' : ''}[ring] Too many send/recv errors. Aborting...\n`))
process.exit(1)

function write(bytes: Buffer): void {
  for (let at = 0; at < bytes.length;) at += writeSync(2, bytes, at)
}
