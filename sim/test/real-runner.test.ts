/** The real runner keeps what the simulated one promises: both pass the same suite. */
import { join } from 'node:path'
import type { AfterHook } from '../../test/kit/folder.ts'
import { newFolder, removeFolder } from '../../test/kit/folder.ts'
import { asProgram, type RunnerProgram } from '../../packages/runner/test/kit.ts'
import { runnerSuite } from '../conformance/runner-suite.ts'

runnerSuite({
  name: 'real',
  settled: (promise) => promise,
  command: (name, lines, ms, code) => {
    const pause = (ms / (lines + 1) / 1000).toFixed(3)
    return `for i in $(seq ${lines}); do sleep ${pause}; echo ${name} line $i; done; sleep ${pause}; exit ${code}`
  },
  open: async () => {
    const folder = newFolder('sim-runner')
    const ends: (() => unknown)[] = []
    const hook: AfterHook = { after: (clean) => void ends.push(clean) }
    const start = (): Promise<RunnerProgram> => asProgram(hook, join(folder, 'state'))
    let runner = await start()
    return {
      client: () => runner.client,
      restart: async () => {
        await runner.kill('SIGKILL')
        runner = await start()
      },
      close: async () => {
        for (const end of ends) await end()
        removeFolder(folder)
      },
    }
  },
})
