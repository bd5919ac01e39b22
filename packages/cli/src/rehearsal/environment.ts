/**
 * A rehearsal: the real daemon, runner, sandbox and tools on a small real task, with a scripted model in place of a paid one
 * and a few faults injected, so that they can be seen being survived. Everything lives in one scratch folder.
 *
 * The faults: the model's stream is cut, later it falls silent, and the runner moves to another port in between.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { startTcpProxy as StartTcpProxy } from '@breakfall/chaos'
import { Fault } from '@breakfall/faults'
import type { SessionEvent } from '@breakfall/wire'
import { type RunnerProcess, startRunnerProcess } from './runner-process.ts'

export type Rehearsal = {
  /** The folder that the turn works in. */
  readonly folder: string
  readonly stateDir: string
  readonly prompt: string
  readonly modelName: string
  /** For the daemon: where model and runner are. */
  readonly env: Readonly<Record<string, string>>
  onEvent(event: SessionEvent): void
  close(): Promise<void>
}

/** Long enough to be seen, short enough to be waited for. */
const LIVENESS_MS = 1_200

export async function startRehearsal(options: {
  plan: string | undefined
  prompt: string | undefined
  isolation: 'bwrap' | 'process' | undefined
}): Promise<Rehearsal> {
  const chaos = await import('@breakfall/chaos')
  const plan = options.plan === undefined ? chaos.readPlan(DEFAULT_PLAN) : chaos.parsePlan(options.plan)
  await using started = new AsyncDisposableStack() // whatever stands when a later part fails is put away
  const scratch = makeScratch()
  started.defer(() => rmSync(scratch, { recursive: true, force: true }))
  const folder = join(scratch, 'project')
  const stateDir = join(scratch, 'state')
  for (const [path, content] of Object.entries(chaos.REHEARSAL_PROJECT)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const runner = await startRunnerProcess({
    stateDir: join(stateDir, 'runner'),
    allowWorkspace: [folder],
    isolation: options.isolation,
  })
  started.defer(() => runner.stop())
  const model = await chaos.startRehearsalModel({ chunkDelayMs: 8 })
  started.defer(() => model.close())
  const proxy = await chaos.startFaultProxy({ upstream: new URL(model.url).origin, plan })
  started.defer(() => proxy.close())
  const moving = await startMovingDoor(runner, chaos.startTcpProxy)
  started.defer(() => moving.close())
  const parts = started.move()
  const faultsOn = options.plan === undefined
  return {
    folder,
    stateDir,
    prompt: options.prompt ?? chaos.REHEARSAL_PROMPT,
    modelName: 'rehearsal/fix',
    env: {
      BREAKFALL_MODEL_BASE_URL: `${proxy.url.replace(/\/$/, '')}/v1`,
      BREAKFALL_MODEL_NAME: 'rehearsal/fix',
      BREAKFALL_MODEL_PROFILE: 'generic',
      BREAKFALL_RUNNER_URL: moving.url,
      BREAKFALL_RUNNER_TOKEN_FILE: runner.tokenFile,
      BREAKFALL_RUNNER_RESOLVE_URL: moving.resolveUrl,
      BREAKFALL_POLICY_LIVENESS_MS: String(LIVENESS_MS),
      BREAKFALL_POLICY_BACKOFF_MS: '200',
    },
    onEvent: (event) => {
      if (faultsOn && event.type === 'tool-result') void moving.moveOnce()
    },
    close: () => parts.disposeAsync(),
  }
}

// ---- details ----

const SCRATCH = 'breakfall-rehearsal-'
const STALE_MS = 24 * 60 * 60_000 // no rehearsal is that long

function makeScratch(): string {
  try {
    sweepScratch()
    return mkdtempSync(join(tmpdir(), SCRATCH))
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: `no scratch folder can be made in ${tmpdir()}; set TMPDIR to a folder that this user may write to`,
      cause,
    })
  }
}

/** Removes what rehearsals that were killed have left behind. */
function sweepScratch(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(SCRATCH))) {
    const folder = join(tmpdir(), name)
    const age = Date.now() - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    try {
      if (age > STALE_MS) rmSync(folder, { recursive: true, force: true })
    } catch {
      // another user's, or in use after all: it is only litter
    }
  }
}

const DEFAULT_PLAN = {
  at: [
    { request: 2, attempt: 1, fault: { kind: 'reset', afterEvents: 4 } },
    { request: 4, attempt: 1, fault: { kind: 'stall', ms: 20_000, afterEvents: 3 } },
  ],
} as const

/** The runner behind a door that moves to another port, once, and a small service that knows where it is now. */
async function startMovingDoor(
  runner: RunnerProcess,
  startTcpProxy: typeof StartTcpProxy,
): Promise<{ url: string; resolveUrl: string; moveOnce(): Promise<void>; close(): Promise<void> }> {
  const upstream = { port: Number(new URL(runner.url).port) }
  let door = await startTcpProxy({ upstream })
  let moved = false
  const address = (): string => `http://127.0.0.1:${door.port}`
  const resolver = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ url: address() }))
  })
  await new Promise<void>((resolve) => {
    resolver.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: address(),
    resolveUrl: `http://127.0.0.1:${(resolver.address() as AddressInfo).port}/`,
    moveOnce: async () => {
      if (moved) return
      moved = true
      const old = door
      door = await startTcpProxy({ upstream })
      await old.close()
    },
    close: async () => {
      resolver.close()
      resolver.closeAllConnections()
      await door.close()
    },
  }
}
