/** The simulated stores, in the suite that every store must pass. `sim/test/simulation.test.ts` runs it in a separate process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { storeSequences } from '../../packages/engine/test/conformance/store-sequences.ts'
import { type Adapter, storeSuite } from '../../packages/engine/test/conformance/store-suite.ts'
import type { Store } from '../../packages/engine/src/store/store.ts'
import { setWorld, START, World } from '../host/time.ts'
import { Database } from '../world/database.ts'
import { driven } from './driven.ts'
import { embeddedStore, Sharing, sharedStore } from '../world/store.ts'

const adapter = (name: string, open: (sharing: Sharing, boot: number) => Store): Adapter => ({
  name,
  place: () => {
    const folder = mkdtempSync(join(tmpdir(), 'breakfall-sim-'))
    const world = new World(1, folder)
    setWorld(world)
    const database = new Database(join(folder, 'journal.db'), () => START + world.now)
    const calm = { statement: () => ({ delayMs: 2 }), hint: () => [1] }
    const sharing = new Sharing(world, database, calm)
    let boots = 0
    return {
      open: async () => {
        boots += 1
        const store = open(sharing, boots)
        await driven(world, registered(store))
        return drivenStore(world, store)
      },
      remove: async () => {
        database.close()
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
})

const embedded = adapter('simulated, of one daemon', (sharing, boot) =>
  embeddedStore(sharing, sharing.world.process(`d1.${boot}`)),
)
const shared = adapter('simulated, of a fleet', (sharing, boot) =>
  sharedStore(sharing, sharing.world.process(`d1.${boot}`), 'd1'),
)

for (const each of [embedded, shared]) {
  storeSuite(each)
  storeSequences(each, 100)
}

// ---- details ----

async function registered({ lease }: Store): Promise<void> {
  while (!lease.isHeld()) await new Promise((resolve) => setTimeout(resolve, 100))
}

/** The same store, in whose calls virtual time passes. */
function drivenStore(world: World, store: Store): Store {
  return new Proxy(store, {
    get(target, name, receiver) {
      const member: unknown = Reflect.get(target, name, receiver)
      if (typeof member !== 'function') return member
      return (...args: unknown[]) => {
        const answer: unknown = Reflect.apply(member, target, args)
        return answer instanceof Promise ? driven(world, answer) : answer
      }
    },
  })
}
