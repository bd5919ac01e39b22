/** Real runners for tests: in this process, on a port that a test may choose, with a state folder that says who it is. */
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { startRunner } from '@breakfall/runner'
import type { RunnerConfig } from '../../src/index.ts'
import { afterwards, tempFolder } from './setup.ts'

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
  options: { folder?: string; port?: number; tokenFile?: string } = {},
): Promise<TestRunner> {
  const folder = options.folder ?? tempFolder(t)
  const tokenFile = options.tokenFile ?? join(folder, 'token')
  const runner = await startRunner({
    stateDir: join(folder, 'state'),
    tokenFile,
    port: options.port ?? 0,
    allowIsolation: ['process'],
    allowWorkspace: [],
    idleExitMs: null,
  })
  let isStopped = false
  const stop = async (): Promise<void> => {
    if (isStopped) return
    isStopped = true
    await runner.close()
  }
  afterwards(t, stop)
  return {
    url: runner.url,
    port: Number(new URL(runner.url).port),
    runnerId: runner.runnerId,
    config: { url: runner.url, tokenFile },
    folder,
    stop,
    again: (port = 0) => testRunner(t, { folder, port, tokenFile }),
  }
}

/** A port where nothing listens. */
export async function unboundPort(): Promise<number> {
  const { createServer } = await import('node:net')
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
