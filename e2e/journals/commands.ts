/** Runs several `breakfall` commands in one process. The arguments are JSON; what each command printed comes back as JSON. */
import { writeSync } from 'node:fs'
import { main } from '../../packages/cli/src/program.ts'

const printed: string[] = []
let text = ''
process.stdout.write = ((piece: string | Uint8Array): boolean => {
  text += typeof piece === 'string' ? piece : Buffer.from(piece).toString()
  return true
}) as typeof process.stdout.write

for (const command of JSON.parse(process.argv[2] ?? '[]') as readonly (readonly string[])[]) {
  text = ''
  await main([process.execPath, 'breakfall', ...command])
  printed.push(text)
}
writeSync(1, JSON.stringify(printed))
process.exit(0)
