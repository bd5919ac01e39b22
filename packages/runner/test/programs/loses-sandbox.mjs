/**
 * Preloaded into a runner: SIGKILLs processes of the first warm sandbox that is used, at one step of its use. LOSES is
 * `STEP WHAT`: `renamed` or `claimed`, and `sandbox` (its init) or `keeper` (both).
 */
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { dirname, join } from 'node:path'

const [step, what] = (process.env['LOSES'] ?? '').split(' ')
const isStep = {
  renamed: (from, to) => String(from).includes('/warm/') && String(to).includes('/execs/') && to,
  claimed: (path) => String(path).endsWith('/started') && dirname(String(path)),
}[step]
const name = step === 'renamed' ? 'renameSync' : 'openSync'
const real = fs[name]
let isDone = false
fs[name] = (...args) => {
  const result = real(...args)
  const folder = isDone ? false : isStep(...args)
  if (folder !== false) {
    isDone = true
    lose(fs.readFileSync(join(folder, 'status'), 'latin1'))
  }
  return result
}
syncBuiltinESMExports()

function lose(status) {
  const sandbox = Number(/"child-pid": (\d+)/.exec(status)?.[1])
  const keeper = Number(/^keeper (\d+) /m.exec(status)?.[1])
  const pids = what === 'keeper' ? [keeper, sandbox] : [sandbox]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  while (pids.some(lives)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
}

/** A zombie is gone: this process, which waits here, cannot reap its own child. */
function lives(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(fs.readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    return false
  }
}
