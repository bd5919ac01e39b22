/**
 * The surroundings of a rehearsal: the real runner, sandbox and tools on a small real task, with a scripted model in place of a
 * paid one and a few injected faults, to show how they are survived. Everything lives in one scratch folder.
 *
 * The default faults: the model's stream breaks, the runner moves to another port, and a later stream stalls.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { startTcpProxy as StartTcpProxy } from '@breakfall/chaos'
import { Fault } from '@breakfall/faults'
import type { ProviderGiven, SessionEvent } from '@breakfall/wire'
import { type RunnerProcess, startRunnerProcess } from './runner-process.ts'

export type Rehearsal = {
  /** Where the turn works. */
  readonly folder: string
  readonly stateDir: string
  readonly prompt: string
  readonly modelName: string
  readonly provider: ProviderGiven
  /** Tells the daemon where the runner is. */
  readonly env: Readonly<Record<string, string>>
  onEvent(event: SessionEvent): void
  close(): Promise<void>
}

/** Long enough to see, short enough to wait for. */
const LIVENESS_MS = 1_200

export async function startRehearsal(options: {
  plan: string | undefined
  prompt: string | undefined
  isolation: 'bwrap' | 'process' | undefined
}): Promise<Rehearsal> {
  const chaos = await import('@breakfall/chaos')
  const plan = options.plan === undefined ? chaos.readPlan(DEFAULT_PLAN) : chaos.parsePlan(options.plan)
  await using started = new AsyncDisposableStack() // cleans up if a later part fails to start
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
  const moving = await startMovingProxy(runner, chaos.startTcpProxy)
  started.defer(() => moving.close())
  const parts = started.move()
  const faultsOn = options.plan === undefined
  return {
    folder,
    stateDir,
    prompt: options.prompt ?? chaos.REHEARSAL_PROMPT,
    modelName: 'rehearsal/fix',
    provider: {
      name: 'rehearsal',
      baseUrl: `${proxy.url.replace(/\/$/, '')}/v1`,
      api: 'openai-chat',
      profile: 'generic',
    },
    env: {
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
const STALE_MS = 24 * 60 * 60_000 // no rehearsal takes that long

function makeScratch(): string {
  try {
    sweepScratch()
    return mkdtempSync(join(tmpdir(), SCRATCH))
  } catch (cause) {
    throw new Fault('invalid_request', {
      error: `Cannot create a scratch folder in ${tmpdir()}; set TMPDIR to a folder that you can write to`,
      cause,
    })
  }
}

/** Removes what killed rehearsals left behind. */
function sweepScratch(): void {
  for (const name of readdirSync(tmpdir()).filter((entry) => entry.startsWith(SCRATCH))) {
    const folder = join(tmpdir(), name)
    const age = Date.now() - (statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    try {
      if (age > STALE_MS) rmSync(folder, { recursive: true, force: true })
    } catch {
      // another user's, or still in use: leaving it does no harm
    }
  }
}

const DEFAULT_PLAN = {
  at: [
    { request: 2, attempt: 1, fault: { kind: 'reset', afterEvents: 4 } },
    { request: 4, attempt: 1, fault: { kind: 'stall', ms: 20_000, afterEvents: 3 } },
  ],
} as const

/** Puts the runner behind a proxy that moves to another port once, and serves the proxy's current address. */
async function startMovingProxy(
  runner: RunnerProcess,
  startTcpProxy: typeof StartTcpProxy,
): Promise<{ url: string; resolveUrl: string; moveOnce(): Promise<void>; close(): Promise<void> }> {
  const upstream = { port: Number(new URL(runner.url).port) }
  let proxy = await startTcpProxy({ upstream })
  let moved = false
  const address = (): string => `http://127.0.0.1:${proxy.port}`
  const resolver = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ url: address() }))
  })
  resolver.listen(0, '127.0.0.1')
  await once(resolver, 'listening')
  return {
    url: address(),
    resolveUrl: `http://127.0.0.1:${portOf(resolver.address())}/`,
    moveOnce: async () => {
      if (moved) return
      moved = true
      const old = proxy
      proxy = await startTcpProxy({ upstream })
      await old.close()
    },
    close: async () => {
      resolver.close()
      resolver.closeAllConnections()
      await proxy.close()
    },
  }
}

const portOf = (address: ReturnType<Server['address']>): number =>
  typeof address === 'object' && address !== null ? address.port : 0
