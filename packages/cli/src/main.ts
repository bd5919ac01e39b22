#!/usr/bin/env node
/** The `breakfall` command: runs one command and exits with a documented exit code. */
import { enableCompileCache } from 'node:module'
import './process/signals.ts' // first: a signal may arrive while the rest loads

enableCompileCache()
const { main } = await import('./program.ts')
process.exitCode = await main(process.argv)
// Waits until slow readers have taken all output. Then exits, whatever handles are still open.
await new Promise((resolve) => setImmediate(resolve)) // lets errors of the streams be reported
for (const stream of [process.stdout, process.stderr])
  if (stream.writableLength > 0) await new Promise<void>((resolve) => void stream.write('', () => resolve()))
process.exit()
