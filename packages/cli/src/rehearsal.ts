/**
 * A rehearsal: the real daemon, runner, sandbox and tools on a small real task, with a scripted model in place of a paid one
 * and a few faults injected, so that they can be seen being survived. Everything lives in one scratch folder.
 *
 * The faults: the model's stream is cut, later it falls silent, and the runner moves to another port in between.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { startTcpProxy as StartTcpProxy } from '@breakfall/chaos'
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
  const scratch = mkdtempSync(join(tmpdir(), 'breakfall-rehearsal-'))
  const folder = join(scratch, 'project')
  const stateDir = join(scratch, 'state')
  for (const [path, content] of Object.entries(chaos.REHEARSAL_PROJECT)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const model = await chaos.startRehearsalModel({ chunkDelayMs: 8 })
  const plan = options.plan === undefined ? chaos.readPlan(DEFAULT_PLAN) : chaos.parsePlan(options.plan)
  const proxy = await chaos.startFaultProxy({ upstream: new URL(model.url).origin, plan })
  const runner = await startRunnerProcess({
    stateDir: join(stateDir, 'runner'),
    allowWorkspace: [folder],
    isolation: options.isolation,
  })
  const moving = await startMovingDoor(runner, chaos.startTcpProxy)
  const faultsOn = options.plan === undefined
  return {
    folder,
    stateDir,
    prompt: options.prompt ?? chaos.REHEARSAL_PROMPT,
    modelName: 'rehearsal/mend',
    env: {
      BREAKFALL_MODEL_BASE_URL: `${proxy.url.replace(/\/$/, '')}/v1`,
      BREAKFALL_MODEL_NAME: 'rehearsal/mend',
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
    close: async () => {
      await Promise.allSettled([moving.close(), proxy.close(), model.close()])
      await runner.stop()
      rmSync(scratch, { recursive: true, force: true })
    },
  }
}

// ---- details ----

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
