/** The simulated runner, in the suite that the real one passes. `sim/test/simulation.test.ts` runs it in a separate process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRunnerClient } from '../../packages/runner/src/client/index.ts'
import { setWorld, World } from '../host/time.ts'
import { Network, setNetwork } from '../world/network.ts'
import { Runner, RunnerDisk } from '../world/runner.ts'
import { driven } from './driven.ts'
import { runnerSuite } from './runner-suite.ts'

const ORIGIN = 'http://runner:7000'
let world: World

runnerSuite({
  name: 'simulated',
  settled: (promise) => driven(world, promise),
  command: (name, lines, ms, code) => `work ${name} lines=${lines} ms=${ms} code=${code}`,
  open: async () => {
    const folder = mkdtempSync(join(tmpdir(), 'breakfall-sim-'))
    world = new World(1, folder)
    setWorld(world)
    const network = new Network(world, { fateOf: () => ({}), delayMs: () => 1, blocked: () => undefined })
    setNetwork(network)
    const disk = new RunnerDisk('runner-1')
    let boots = 0
    let runner: Runner | undefined
    const restart = async (): Promise<void> => {
      if (runner !== undefined) runner.process.isDead = true
      boots += 1
      runner = new Runner(world, disk, world.process(`runner.${boots}`))
      runner.listen(network, ORIGIN)
    }
    await restart()
    return {
      client: () => createRunnerClient({ url: ORIGIN, token: '', runnerId: 'runner-1' }),
      restart,
      close: async () => rmSync(folder, { recursive: true, force: true }),
    }
  },
})
