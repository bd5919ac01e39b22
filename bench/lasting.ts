/**
 * Many short runs against one daemon with one tool call each: disk, memory, descriptors and start-up time must stay flat.
 * `node --expose-gc bench/lasting.ts [--runs 5000] [--keep 200] [--parallel 8]` prints a line per tenth.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, lstatSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startDaemon } from '@breakfall/daemon'
import { DaemonClient } from '@breakfall/client'
import { startRunner } from '@breakfall/runner'
import { isTerminal } from '@breakfall/wire'
import { startScriptedModel, inOrder } from '../packages/engine/test/support/scripted-model.ts'

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '5000' },
    keep: { type: 'string', default: '200' },
    parallel: { type: 'string', default: '8' },
    model: { type: 'boolean', default: false },
  },
})
if (values.model) await serveModel()
const [runs, keep, parallel] = [Number(values.runs), Number(values.keep), Number(values.parallel)]
const folder = mkdtempSync(join(tmpdir(), 'breakfall-lasting-'))
const workspace = join(folder, 'work')
mkdirSync(workspace)
const model = spawn(process.execPath, [fileURLToPath(import.meta.url), '--model'], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
const [baseUrl] = (await once(createInterface({ input: model.stdout }), 'line')) as [string]
const tokenFile = join(folder, 'token')
const runner = await startRunner({
  stateDir: join(folder, 'runner'),
  tokenFile,
  allowIsolation: ['process'],
  allowWorkspace: [workspace],
  boxesMax: 50,
})
const options = {
  stateDir: join(folder, 'state'),
  model: { baseUrl, name: 'scripted' },
  runner: { url: runner.url, tokenFile },
  policy: { boxIdleMs: 0 },
  retention: { sessionsMax: keep },
  logLevel: 'silent',
}
let daemon = await startDaemon(options)

/** In a separate process, because it remembers every request. */
async function serveModel(): Promise<never> {
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] }, { text: 'done' })
  console.log((await startScriptedModel(script)).baseUrl)
  await once(process.stdin.resume(), 'end') // its parent is gone
  process.exit()
}

async function run(): Promise<void> {
  const client = new DaemonClient({ url: daemon.url, token: daemon.token })
  const { id } = await client.createSession({ box: { workspace } })
  const { turnId, seq } = await client.prompt(id, 'go')
  for await (const event of client.events(id, { after: seq - 1 })) {
    if (!isTerminal(event) || event.turnId !== turnId) continue
    if (event.type !== 'turn-end') throw new Error(JSON.stringify(event))
    return
  }
}

function bytesIn(path: string): number {
  if (!lstatSync(path).isDirectory()) return lstatSync(path).size
  return readdirSync(path).reduce((sum, name) => {
    try {
      return sum + bytesIn(join(path, name))
    } catch {
      return sum // removed meanwhile
    }
  }, 0)
}

const rssMb = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024

console.log('runs  run/s  sessions  boxes  state MiB  runner MiB  rss MiB  heap MiB  descriptors  restart ms')
for (let part = 1; part <= 10; part++) {
  const from = performance.now()
  let left = Math.round(runs / 10)
  const worker = async (): Promise<void> => {
    while (left-- > 0) await run()
  }
  await Promise.all(Array.from({ length: parallel }, worker))
  const rate = runs / 10 / ((performance.now() - from) / 1000)
  await daemon.close()
  const restart = performance.now()
  daemon = await startDaemon(options)
  const restartMs = performance.now() - restart
  const sessions = (await new DaemonClient({ url: daemon.url, token: daemon.token }).sessions()).length
  globalThis.gc?.()
  const numbers = [
    (runs / 10) * part,
    rate.toFixed(0),
    sessions,
    readdirSync(join(folder, 'runner', 'boxes', 'default')).length,
    (bytesIn(options.stateDir) / 1024 ** 2).toFixed(1),
    (bytesIn(join(folder, 'runner')) / 1024 ** 2).toFixed(1),
    rssMb().toFixed(0),
    (process.memoryUsage().heapUsed / 1024 ** 2).toFixed(0),
    readdirSync('/proc/self/fd').length,
    restartMs.toFixed(0),
  ]
  console.log(numbers.join('  '))
}
await daemon.close()
await runner.close()
model.kill()
rmSync(folder, { recursive: true, force: true })
