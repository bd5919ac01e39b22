/** Real runners for tests: in this process or in a child, on a port that a test may choose; the state folder is their identity. */
import { nodeProgram } from '../../../../test/kit/program.ts'
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type RunnerOptions, startRunner } from '@breakfall/runner'
import type { RunnerConfig } from '@breakfall/engine'

export type TestRunner = {
  readonly url: string
  readonly port: number
  readonly runnerId: string
  readonly config: RunnerConfig
  readonly folder: string
  stop(): Promise<void>
  /** The same runner (same state folder), at another or the same port. */
  again(port?: number): Promise<TestRunner>
}

export async function testRunner(
  t: TestContext,
  options: {
    folder?: string
    port?: number
    tokenFile?: string
    boxesMax?: number
    allowWorkspace?: readonly string[]
    /** Anything else that a runner takes. */
    more?: Partial<RunnerOptions>
  } = {},
): Promise<TestRunner> {
  const folder = options.folder ?? tempFolder(t)
  const tokenFile = options.tokenFile ?? join(folder, 'token')
  const runner = await startRunner({
    stateDir: join(folder, 'state'),
    tokenFile,
    port: options.port ?? 0,
    allowIsolation: ['process'],
    allowWorkspace: options.allowWorkspace ?? [],
    boxesMax: options.boxesMax,
    idleExitMs: null,
    etcCopyAfterMs: 3_600_000, // it would outlive a short test
    ...options.more,
  })
  let isStopped = false
  const stop = async (): Promise<void> => {
    if (isStopped) return
    isStopped = true
    await runner.close()
  }
  atEnd(t, stop)
  return {
    url: runner.url,
    port: Number(new URL(runner.url).port),
    runnerId: runner.runnerId,
    config: { url: runner.url, tokenFile },
    folder,
    stop,
    again: (port = 0) => testRunner(t, { ...options, folder, port, tokenFile }),
  }
}

const PROGRAM = fileURLToPath(new URL('main.ts', import.meta.resolve('@breakfall/runner')))

export type RunnerProcess = { readonly url: string; readonly runnerId: string; kill(): Promise<void> }

/** A runner as `breakfall up` starts one. Its folder determines its identity, the port its address. */
export async function runnerProcess(
  t: TestContext,
  { folder, port, tokenFile }: { folder: string; port: number; tokenFile: string },
): Promise<RunnerProcess> {
  const flags = ['--state-dir', folder, '--port', String(port), '--token-file', tokenFile, '--json']
  const program = nodeProgram(PROGRAM, [...flags, '--allow-isolation', 'process'], { stderr: 'inherit' })
  const kill = async (): Promise<void> => void (await program.kill())
  atEnd(t, () => program.stop()) // killed, it leaves helpers that still write into its folder for a moment
  const { url, runnerId } = await program.listening()
  return { url, runnerId, kill }
}
