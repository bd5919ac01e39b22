/** Rows on their way into the database, as `unnest` takes them: one array for each column. Pure. */
import type { PgScalar, PgValue } from './connection.ts'

type Columns = Readonly<Record<string, 'uuid' | 'int' | 'bigint' | 'text' | 'bytea' | 'bool' | 'timestamptz'>>

/** What a statement is given besides its text: the rows that a source has for each of these tables. */
export type Table<Source> = {
  readonly columns: Columns
  readonly rowsOf: (source: Source) => readonly Readonly<Record<string, PgScalar>>[]
}

export const table = <Source, C extends Columns>(
  columns: C,
  rowsOf: (source: Source) => readonly { readonly [Column in keyof C]: PgScalar }[],
): Table<Source> => ({ columns, rowsOf })

export const namesOf = ({ columns }: Table<never>): string => Object.keys(columns).join(', ')

/** Each as it stands in FROM, under its name. The first array is the statement's first value. */
export function unnested<Name extends string>(
  tables: Readonly<Record<Name, Table<never>>>,
): Readonly<Record<Name, string>>
export function unnested(tables: Readonly<Record<string, Table<never>>>): Readonly<Record<string, string>> {
  let last = 0
  const inFrom = (name: string, of: Table<never>): string => {
    const arrays = Object.values(of.columns).map((type) => `$${(last += 1)}::${type}[]`)
    return `unnest(${arrays.join(', ')}) AS ${name}(${namesOf(of)})`
  }
  return Object.fromEntries(Object.entries(tables).map(([name, of]) => [name, inFrom(name, of)]))
}

export const arraysOf = <Source>(
  tables: Readonly<Record<string, Table<Source>>>,
  sources: readonly Source[],
): readonly PgValue[] =>
  Object.values(tables).flatMap(({ columns, rowsOf }) => {
    const rows = sources.flatMap(rowsOf)
    return Object.keys(columns).map((column) => rows.map((row) => row[column] ?? null))
  })
