/** After any sequence of operations, a store holds what a simple model of it holds. */
import { sqliteAdapter } from '../conformance/sqlite-adapter.ts'
import { storeSequences } from '../conformance/store-sequences.ts'

storeSequences(sqliteAdapter, 3) // the simulated stores, which keep their events in the same journal, have many more
