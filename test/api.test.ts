/** What each published library exports is what its report says (`packages/NAME/api.txt`) and what its README lists. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { apiReport, exportsOf, namesIn } from '../scripts/api-report.mjs'
import { LIBRARIES } from '../e2e/install/project.ts'
import { root } from './sources.ts'

const types = mkdtempSync(join(tmpdir(), 'breakfall-api-'))
before(() => {
  const tsc = join(root, 'node_modules/.bin/tsc')
  const args = ['--singleThreaded', '-p', 'tsconfig.build.json', '--emitDeclarationOnly', '--outDir', types]
  const { status, stdout } = spawnSync(tsc, args, { cwd: root, encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})
after(() => rmSync(types, { recursive: true, force: true }))

const file = (name: string, path: string): string => readFileSync(join(root, 'packages', name, path), 'utf8')

for (const name of LIBRARIES) {
  test(`${name} exports what its report says. If you meant the change, run npm run api`, () => {
    const manifest: { name: string; exports: Record<string, string> } = JSON.parse(file(name, 'package.json'))
    assert.equal(apiReport(name, manifest, types), file(name, 'api.txt'))
  })

  test(`the README of ${name} lists every export, and nothing else, under "Exports"`, () => {
    const section = /^## Exports\n([\s\S]*?)(?=^More: |^## )/m.exec(file(name, 'README.md'))?.[1] ?? ''
    const listed = Array.from(section.matchAll(/`(\w+)`/g), ([, one = '']) => one)
    assert.deepEqual([...new Set(listed)].toSorted(), namesIn(file(name, 'api.txt')).toSorted())
  })
}

test('a report follows re-exports and new names, and leaves out comments and private members', () => {
  const at = (path: string): string => join(types, path)
  writeFileSync(
    at('a.d.ts'),
    '/** A. */\nexport declare class A {\n    #private;\n    /** Runs. */\n    run(): void;\n}\ntype Hidden = 1;\nexport type B = Hidden;\nexport {};\n',
  )
  writeFileSync(
    at('b.d.ts'),
    "export { A as First, type B } from './a.ts';\nexport type { C } from '@breakfall/faults';\n",
  )
  assert.deepEqual(
    [...exportsOf(at('b.d.ts'))],
    [
      ['First', 'class First {\n    run(): void;\n}'],
      ['B', 'type B = Hidden;'],
      ['C', 'from "@breakfall/faults": C'],
    ],
  )
})
