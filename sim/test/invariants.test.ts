/** Each labelled invariant of the engine, the turn and the answer machine has a mutant, or a reason why no rule can notice one. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const ROOMS = ['session', 'boxes', 'tools', 'loop', 'service', 'turn'].map((room) => `engine/src/${room}`)
const FOLDERS = [...ROOMS, 'model/src/machine']
const sourceOf = (file: string): string => readFileSync(join(ROOT, 'packages', file), 'utf8')
const listed = (file: string): unknown => JSON.parse(readFileSync(join(ROOT, 'sim', file), 'utf8'))

type Mutant = { what: string; keeps?: string[]; plan?: string; file?: string; from?: string }
const mutants = listed('mutants.json') as readonly Mutant[]
/** By label, or by file if it says so of all labels there. */
const unseen = listed('unseen.json') as Readonly<Record<string, string>>

const labels = FOLDERS.flatMap((folder) =>
  readdirSync(join(ROOT, 'packages', folder)).flatMap((name) =>
    Array.from(sourceOf(`${folder}/${name}`).matchAll(/^ \* (I\d+) {2}/gm), ([, nr]) => `${folder}/${name} ${nr}`),
  ),
)
const fileOf = (label: string): string => label.split(' ')[0] ?? ''

test('each labelled invariant has a mutant or a reason why no rule can notice one, and not both', () => {
  const broken = new Set(mutants.flatMap(({ keeps = [] }) => keeps))
  const hasReason = (label: string): boolean => label in unseen || fileOf(label) in unseen
  assert.ok(labels.length > 100, `only ${labels.length} labels were found`)
  assert.deepEqual(
    labels.filter((label) => broken.has(label) === hasReason(label)),
    [],
  )
})

test('mutants and reasons name invariants that exist', () => {
  const known = new Set([...labels, ...labels.map(fileOf)])
  const named = [...mutants.flatMap(({ keeps = [] }) => keeps), ...Object.keys(unseen)]
  assert.deepEqual(
    named.filter((name) => !known.has(name)),
    [],
  )
})

test('the text that a mutant changes is in its file exactly once', () => {
  const wrong = mutants.filter(
    ({ file, from }) => file !== undefined && from !== undefined && sourceOf(file).split(from).length !== 2,
  )
  assert.deepEqual(
    wrong.map(({ what }) => what),
    [],
  )
})

test('each plan has a mutant that brings its bug back', () => {
  const plans = readdirSync(join(ROOT, 'sim/plans')).map((name) => name.replace('.json', ''))
  assert.deepEqual(mutants.flatMap(({ plan = [] }) => plan).toSorted(), plans)
})
