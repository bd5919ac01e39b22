/** Preloaded into a runner: SIGKILLs it right after one step of a warm exec, named by DIES_AT. */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'

const step = process.env['DIES_AT']

/** The function of fs that makes the step, and its arguments when it does. */
const STEPS = {
  made: ['openSync', (path) => String(path).includes('/warm/') && String(path).endsWith('/job.fifo')],
  renamed: ['renameSync', (from, to) => String(from).includes('/warm/') && String(to).includes('/execs/')],
  written: ['writeFileSync', (path, text) => String(path).endsWith('/launch') && String(text).includes('begun')],
  claimed: ['openSync', (path) => String(path).endsWith('/started')],
  sent: ['writeSync', (_fd, text) => text === '\n'],
}

const [name, isStep] = STEPS[step] ?? []
if (name !== undefined) {
  const real = fs[name]
  fs[name] = (...args) => {
    const result = real(...args)
    if (isStep(...args)) process.kill(process.pid, 'SIGKILL')
    return result
  }
  syncBuiltinESMExports()
}
