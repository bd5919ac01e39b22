#!/usr/bin/env node
/** The `breakfall` command: reads the arguments, runs one command, and ends with a documented exit code. */
import { enableCompileCache } from 'node:module'

enableCompileCache()
const { main } = await import('./program.ts')
process.exitCode = await main(process.argv)
