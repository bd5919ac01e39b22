#!/usr/bin/env node
/** The `breakfall` command: reads the arguments, runs one command, and ends with a documented exit code. */
import { enableCompileCache } from 'node:module'
import './process/signals.ts' // listens from here on: a signal may come before the rest is loaded

enableCompileCache()
const { main } = await import('./program.ts')
process.exitCode = await main(process.argv)
// All of it is written, however slowly it is read. Then nothing that was left open keeps a command that has ended.
await new Promise((resolve) => setImmediate(resolve)) // what went wrong with writing is told by then
for (const stream of [process.stdout, process.stderr])
  if (stream.writableLength > 0) await new Promise<void>((resolve) => void stream.write('', () => resolve()))
process.exit()
