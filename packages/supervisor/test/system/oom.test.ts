import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { supervise, type SuperviseSpec } from '../../src/index.ts'
import { eventually, QUICK, untilState } from '../child-fixture.ts'
import { memoryGroup } from '../memory-group.ts'

const MIB = 1024 * 1024

/** Joins the group, prints that it did, and runs the command after a line of input. */
const inGroup = (procs: string, command: string): Pick<SuperviseSpec, 'command' | 'args' | 'ready' | 'limits'> => ({
  command: 'sh',
  args: ['-c', `echo $$ > ${procs} && echo up && read -r _ && ${command}`],
  ready: { kind: 'line', pattern: /^up$/ },
  limits: { ...QUICK, failuresMax: 1 },
})

const HOG = 'exec tail /dev/zero' // waits for the end of a line that never ends

describe('a child in a control group of 32 MiB', () => {
  it('that takes more is reported as out of memory', async (t) => {
    const group = memoryGroup(32 * MIB)
    if (typeof group === 'string') return t.skip(group)
    t.after(() => group[Symbol.dispose]())
    await using child = supervise(inGroup(group.procs, HOG))
    await child.start()
    await child.write('\n')
    const { report, fault } = await untilState(child, 'given_up')
    assert.deepEqual([report.kind, report.signal], ['oom_killed', 'SIGKILL'])
    assert.equal(report.diagnoses[0]?.id, 'exit.oom_killed')
    assert.match(fault.error, /ran out of memory.*smaller model/)
  })

  it('whose worker takes more is reported as out of memory, although it exited on its own', async (t) => {
    const group = memoryGroup(32 * MIB)
    if (typeof group === 'string') return t.skip(group)
    t.after(() => group[Symbol.dispose]())
    await using child = supervise(inGroup(group.procs, 'tail /dev/zero; exit $?'))
    await child.start()
    await child.write('\n')
    const { report } = await untilState(child, 'given_up')
    assert.deepEqual([report.kind, report.rawCode], ['oom_killed', 137])
  })

  it('that is killed by another process is not, even if memory ran out long before', async (t) => {
    const group = memoryGroup(32 * MIB)
    if (typeof group === 'string') return t.skip(group)
    t.after(() => group[Symbol.dispose]())
    await using other = supervise(inGroup(group.procs, HOG))
    await using child = supervise({
      ...inGroup(group.procs, 'sleep 60'),
      limits: { ...QUICK, failuresMax: 1, hungMs: 80 }, // looks at the counters every 10 ms
    })
    await Promise.all([other.start(), child.start()])
    await other.write('\n')
    await untilState(other, 'given_up')
    const from = performance.now()
    await eventually(() => performance.now() - from > 200, 'a look at the counters') // nothing else tells that it has looked
    process.kill(child.pid ?? 0, 'SIGKILL')
    const { report } = await untilState(child, 'given_up')
    assert.equal(report.kind, 'signaled')
  })
})
