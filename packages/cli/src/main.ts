#!/usr/bin/env node
/** The `breakfall` command: reads the arguments, runs one command, and ends with a documented exit code. */
import { enableCompileCache } from 'node:module'
import './signals.ts' // listens from here on: a signal may come before the rest is loaded

enableCompileCache()
const { main } = await import('./program.ts')
process.exit(await main(process.argv)) // nothing that was left open keeps a command that has ended
