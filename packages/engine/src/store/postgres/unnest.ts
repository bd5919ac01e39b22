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

/** Each table as it stands in FROM, by its name. The first array is the statement's first value. */
export function unnested<Name extends string>(tables: Readonly<Record<Name, Table<never>>>): (name: Name) => string {
  const all = new Map<string, string>()
  let last = 0
  for (const [name, of] of Object.entries<Table<never>>(tables)) {
    const arrays = Object.values(of.columns).map((type) => `$${(last += 1)}::${type}[]`)
    all.set(name, `unnest(${arrays.join(', ')}) AS ${name}(${namesOf(of)})`)
  }
  return (name) => all.get(name) ?? ''
}

export const arraysOf = <Source>(
  tables: Readonly<Record<string, Table<Source>>>,
  sources: readonly Source[],
): readonly PgValue[] =>
  Object.values(tables).flatMap(({ columns, rowsOf }) => {
    const rows = sources.flatMap(rowsOf)
    return Object.keys(columns).map((column) => rows.map((row) => row[column] ?? null))
  })
