#!/usr/bin/env node
/** The `breakfall` command: reads the arguments, runs one command, and ends with a documented exit code. */
import { enableCompileCache } from 'node:module'
import { onSignal } from './signals.ts' // listens from here on: a signal may come before the rest is loaded

enableCompileCache()
const { main } = await import('./program.ts')
process.exitCode = await main(process.argv)
onSignal(() => process.exit()) // all is said and done
