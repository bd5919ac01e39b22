import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createRunnerClient } from '@breakfall/runner/client'
import { loadTokens } from '@breakfall/wire/node'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import { ofType } from '../../../engine/test/support/events.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

test(
  'a command whose turn is recovered after its runner has removed its record does not run again',
  LIMIT,
  async (t) => {
    const workspace = join(tempFolder(t), 'work')
    mkdirSync(workspace)
    let aheadMs = 0
    const clock = {
      now: () => Date.now() + aheadMs,
      monotonicMs: () => performance.now(),
      machineBootId: 'boot',
    }
    const more = { clock, retention: { bytesPerBox: 0 } } // the sweep of each minute runs at the end of an exec
    const runner = await testRunner(t, { allowWorkspace: [workspace], more })
    const command = 'echo "order placed" >> ledger; until [ -e go ]; do sleep 0.02; done'
    const script = inOrder({ calls: [{ tool: 'bash', arguments: { command } }] }, { text: 'done' })
    const first = await rig(t, script, { runner: runner.config })
    const { id } = await first.api.session({ box: { workspace } })
    const turnId = await first.api.prompt(id, 'order once')
    await first.api.events(id, ({ type }) => type === 'tool-call')
    const token = loadTokens(runner.config.tokenFile ?? '')[0]?.token ?? ''
    const client = createRunnerClient({ url: runner.url, token })
    atEnd(t, () => client.close())
    const starting = async (): Promise<string> => (await client.listExecs(id).catch(() => []))[0]?.execId ?? starting()
    const execId = await starting()
    await first.daemon.close() // the daemon is a laptop that is closed now; the runner is on another machine
    await client.writeFile(id, 'go', Buffer.from(''))
    await client.waitExec(id, execId)
    aheadMs = 8 * 24 * 3_600_000
    await client.startExec(id, { execId: 'sweep', shell: 'echo swept; rm go' })
    await client.waitExec(id, 'sweep')
    const second = await first.restart()
    const events = await second.api.ended(id, turnId)
    assert.deepEqual(
      ofType(events, 'tool-result').map(({ outcome }) => outcome),
      ['unknown'],
    )
    assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), 'order placed\n')
  },
)
